"""Our own rough token counts: no vocabulary file is needed, and none is downloaded."""

from __future__ import annotations

import re
from typing import Final

_WORD: Final = re.compile(r"[^\W\d_]+")
_WIDE: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_CUT_BELOW: Final = 0.6
_CUT_MINIMUM: Final = 200


def estimate(text: str) -> int:
    """Estimate tokens from above: for fitting a prompt into a context."""
    wide = len(_WIDE.findall(text))
    return wide + (len(text) - wide + 2) // 3


def at_least(text: str) -> int:
    """Count tokens from below: one a word, one for two wide characters."""
    wide = len(_WIDE.findall(text))
    return wide // 2 + len(_WORD.findall(_WIDE.sub(" ", text)))


def looks_cut(lower: int, prompt_tokens: int | None) -> bool:
    """Whether a server's count of prompt tokens shows that it read only a part of the prompt.

    Some servers drop the front of a long prompt without a word (ollama below its ``num_ctx``).

    Args:
        lower: tokens that were sent, counted from below.
        prompt_tokens: the server's count, None when it does not say.
    """
    if prompt_tokens is None:
        return False
    return lower >= _CUT_MINIMUM and prompt_tokens < _CUT_BELOW * lower
