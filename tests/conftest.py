"""Fixtures that several test files share."""

from __future__ import annotations

import pytest

from agent.encoder import make_encoder
from agent.memory import ReplyMemory
from agent.replies.writer import ReplyWriter


@pytest.fixture(scope="module")
def writer() -> ReplyWriter:
    encoder = make_encoder("minilm-int8")
    return ReplyWriter(encoder, ReplyMemory(encoder))
