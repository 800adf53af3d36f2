"""Compile the rule files and match them sentence by sentence."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, cast

from agent.safety.data_files import SafetyDataError, load_yaml
from agent.safety.types import KINDS, Kind

Frame = Literal["self", "third", "victim", "actor", "speaker_acts", "child", "any"]
ENGLISH = (
    "en_self_harm",
    "en_self_harm_signs",
    "en_self_harm_third",
    "en_violence",
    "en_coercive",
    "en_coercive_more",
    "en_child",
    "en_threat",
    "en_medical",
    "en_dependency",
)
OTHER = ("es", "fr", "zh")
"""Languages with files of their own: ``xx_words`` (macros and guards) and the parts below."""
PARTS = ("self_harm", "between", "more")
_FRAME_WORDS: dict[str, dict[str, str]] = {
    "victim": {"A": "{who}", "o": "(?:me|us)", "s": "(?:i|we)", "p": "(?:my|our)"},
    "actor": {
        "A": "\\bi",
        "o": "(?:him|them|you|my partner|partner|xname\\d+)",
        "s": "(?:he|they|you|my partner|partner|xname\\d+)",
        "p": "(?:his|their|your|my partners?|partners?|xname\\d+)",
    },
}


@dataclass(frozen=True, slots=True)
class Guard:
    """Patterns that clear a match in the same sentence, and those that keep it."""

    clear: tuple[re.Pattern[str], ...]
    keep: tuple[re.Pattern[str], ...]

    def clears(self, sentence: str) -> bool:
        """Return whether the sentence is cleared."""
        return any(p.search(sentence) for p in self.clear) and not any(
            p.search(sentence) for p in self.keep
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """One compiled rule in one frame."""

    id: str
    kinds: tuple[Kind, ...]
    frame: Frame
    any: tuple[re.Pattern[str], ...]
    unless: tuple[re.Pattern[str], ...]
    guards: tuple[str, ...]
    whole_turn: bool
    to_bot: bool
    about_speaker: bool
    language: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A rule that matched, and the words it matched (kept in memory only)."""

    rule: Rule
    match: str
    sentence: str


def expand(pattern: str, macros: dict[str, str]) -> str:
    """Return a pattern with every ``{macro}`` written out.

    Raises:
        SafetyDataError: If a macro is unknown.
    """
    token = re.compile(r"\{([A-Za-z]\w*)\}")
    for _ in range(6):
        names = set(token.findall(pattern))
        if not names:
            return pattern
        unknown = names - macros.keys()
        if unknown:
            raise SafetyDataError(f"unknown macro {sorted(unknown)!r} in a safety rule")
        pattern = token.sub(lambda m: macros[m.group(1)], pattern)
    raise SafetyDataError("safety macros refer to each other in a circle")


def _compile(
    patterns: list[str], macros: dict[str, str], where: str
) -> tuple[re.Pattern[str], ...]:
    try:
        return tuple(re.compile(expand(p, macros)) for p in patterns)
    except re.error as error:
        raise SafetyDataError(f"rule {where!r}: pattern does not compile: {error}") from error


def _frames(name: str) -> list[Frame]:
    return ["victim", "actor"] if name == "pair" else [cast(Frame, name)]


def _rules_of(raw: dict[str, Any], macros: dict[str, str], language: str) -> list[Rule]:
    rules = []
    for item in raw["rules"]:
        kind = item.get("kind", raw.get("kind"))
        kinds = (kind, *item.get("also", []))
        if any(k not in KINDS for k in kinds):
            raise SafetyDataError(f"rule {item['id']!r}: unknown kind in {kinds!r}")
        for frame in _frames(item.get("frame", raw.get("frame", "any"))):
            words = macros | _FRAME_WORDS.get(frame, {})
            rules.append(
                Rule(
                    id=item["id"],
                    kinds=kinds,
                    frame=frame,
                    any=_compile(item["any"], words, item["id"]),
                    unless=_compile(item.get("unless", []), words, item["id"]),
                    guards=tuple(item.get("guards", [])),
                    whole_turn=item.get("scope") == "turn",
                    to_bot=bool(item.get("addressed_to_bot")),
                    about_speaker=item.get("about") == "speaker",
                    language=language,
                )
            )
    return rules


@lru_cache(maxsize=1)
def macros() -> dict[str, str]:
    """Return the macros of the English rules."""
    return cast(dict[str, str], load_yaml("rules/lexicon.yaml")["macros"])


@lru_cache(maxsize=1)
def load_rules() -> tuple[Rule, ...]:
    """Return every rule of every language, compiled.

    Raises:
        SafetyDataError: If a rule file is missing or broken.
    """
    rules: list[Rule] = []
    for name in ENGLISH:
        rules += _rules_of(load_yaml(f"rules/{name}.yaml"), macros(), "en")
    for language in OTHER:
        words = load_words(language)["macros"]
        for part in PARTS:
            rules += _rules_of(load_yaml(f"rules/{language}_{part}.yaml"), words, language)
    known = load_guards()
    for rule in rules:
        missing = set(rule.guards) - known.keys()
        if missing:
            raise SafetyDataError(f"rule {rule.id!r}: unknown guards {sorted(missing)!r}")
    return tuple(rules)


def load_words(language: str) -> dict[str, Any]:
    """Return the macros and the guards of a language other than English.

    Raises:
        SafetyDataError: If the file is missing or broken.
    """
    return cast(dict[str, Any], load_yaml(f"rules/{language}_words.yaml"))


def _guards_of(raw: dict[str, Any], words: dict[str, str]) -> dict[str, Guard]:
    return {
        name: Guard(_compile(item["clear"], words, name), _compile(item["keep"], words, name))
        for name, item in raw.items()
    }


@lru_cache(maxsize=1)
def load_guards() -> dict[str, Guard]:
    """Return the guards by name; those of another language begin with its code."""
    guards = _guards_of(load_yaml("rules/guards.yaml"), macros())
    for language in OTHER:
        own = load_words(language)
        guards |= _guards_of(own["guards"], own["macros"])
    return guards


@lru_cache(maxsize=1)
def load_signs() -> dict[str, tuple[frozenset[str], dict[str, tuple[re.Pattern[str], ...]]]]:
    """Return the single signs by kind: the groups of which one must be present, and all groups."""
    raw = load_yaml("rules/en_signs.yaml")
    return {
        kind: (
            frozenset(item["needs_one_of"]),
            {g: _compile(ps, macros(), f"{kind}.{g}") for g, ps in item["groups"].items()},
        )
        for kind, item in raw.items()
    }


def fold(text: str) -> str:
    """Return text without accents, for the Spanish and French rules."""
    parts = unicodedata.normalize("NFD", text)
    plain = "".join(c for c in parts if not unicodedata.combining(c))
    return plain.replace("'", " ").replace("œ", "oe")


@lru_cache(maxsize=1)
def _simple() -> dict[int, str]:
    pairs = load_yaml("rules/zh_words.yaml")["simplify"].split()
    return str.maketrans({pair[0]: pair[1] for pair in pairs})


def simplify(text: str) -> str:
    """Return text in simplified characters, the form the Chinese rules are written in."""
    return text.translate(_simple())


def match_rule(rule: Rule, sentence: str) -> str | None:
    """Return the matched words of a rule in one sentence, or None."""
    found = next((m for p in rule.any if (m := p.search(sentence))), None)
    if found is None or any(p.search(sentence) for p in rule.unless):
        return None
    guards = load_guards()
    if any(guards[name].clears(sentence) for name in rule.guards):
        return None
    return found.group()
