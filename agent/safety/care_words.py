"""The words of care, from ``prompts/safety/care.yaml``, with places to get help filled in."""

from __future__ import annotations

from functools import lru_cache
from typing import cast

from agent.safety.data_files import SafetyDataError, load_yaml
from agent.safety.resources import INTERNATIONAL, Resource, ResourceKind, lookup

FALLBACK = "en"
_FILE = "care.yaml"
_MOST_PLACES = 2


@lru_cache(maxsize=1)
def words() -> dict[str, dict[str, str]]:
    """Return language -> key -> text.

    Raises:
        SafetyDataError: If the file is missing, a text is empty, or a key is not in English.
    """
    raw = load_yaml(_FILE)
    for language, texts in raw.items():
        for key, text in texts.items():
            if not isinstance(text, str) or not text.strip():
                raise SafetyDataError(f"{_FILE}: {language}.{key} is not a text")
            if key not in raw[FALLBACK]:
                raise SafetyDataError(f"{_FILE}: {language}.{key} has no English text")
    return cast(dict[str, dict[str, str]], raw)


def word(key: str, language: str = FALLBACK, **slots: str) -> str:
    """Return a text in a language, in English where there is none.

    Raises:
        SafetyDataError: If there is no such text.
    """
    texts = words()
    text = texts.get(language, {}).get(key) or texts[FALLBACK].get(key)
    if text is None:
        raise SafetyDataError(f"{_FILE}: there is no text {key!r}")
    for slot, value in slots.items():
        text = text.replace("{" + slot + "}", value)
    return text


def has(key: str) -> bool:
    """Return whether there is a text of that key."""
    return key in words()[FALLBACK]


def places(country: str | None, language: str, kinds: tuple[ResourceKind, ...]) -> str:
    """Return where to get help, as one line: by country, else international with a plain hint.

    Args:
        country: ISO code, or None when it is not known.
        language: services in it come first.
        kinds: what the help is for, the most fitting first; each is there with one place at least.
    """
    found: list[list[str]] = []
    phrase = ""
    for kind in kinds:
        help_ = lookup(country, language, kind)
        phrase = phrase or (help_.emergency_phrase or "")
        own = [r for r in help_.resources[:_MOST_PLACES] if not _no_number(r)]
        lines = [f"{r.name}: {r.contact} ({r.hours})" for r in own]
        known = {line for of_kind in found for line in of_kind}
        found.append([line for line in lines if line not in known])
    spare = _MOST_PLACES + 1 - sum(bool(lines) for lines in found)
    listed: list[str] = []
    for lines in found:
        taken = lines[: 1 + max(spare, 0)]
        spare -= len(taken[1:])
        listed += taken
    return _sentence("; ".join(listed), phrase)


def _no_number(resource: Resource) -> bool:
    return resource.country == INTERNATIONAL and resource.kind == "emergency"


def _sentence(listed: str, phrase: str) -> str:
    return f"{listed}. {phrase}".strip(". ") if phrase else listed
