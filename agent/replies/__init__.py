"""Replies from the written library."""

from __future__ import annotations

from agent.replies.library import Frame, LibraryError, ReplyLibrary, load_library
from agent.replies.writer import ReplyWriter

__all__ = ["Frame", "LibraryError", "ReplyLibrary", "ReplyWriter", "load_library"]
