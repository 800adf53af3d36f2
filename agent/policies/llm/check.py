"""Checks of a reply before it is sent: for whom it is, no diagnosis, no taking sides, length.

The limits follow the duties in docs/safety.md: no verdict about who is right, no illness named
that the people did not name themselves, nothing of the machinery shown.
"""

from __future__ import annotations

import re
from typing import Final

from agent.labels import STRATEGIES
from agent.llm.tokens import at_least
from agent.policies.base import View

MOST_WORDS: Final = 70
_ILLNESS: Final = re.compile(
    r"narciss\w*|bipolar|borderline|schizo\w*|psychopath\w*|sociopath\w*|psychotic|psychosis"
    r"|personality disorder|clinical(ly)? \w+|disorder|ptsd|c-ptsd|adhd|ocd\b|autis\w+|asperger\w*"
    r"|codependen\w*|co-dependen\w*|gasligh\w*|toxic|abuser|attachment style|trauma bond\w*"
    r"|depress(ed|ion|ive)|anxiety|mania|manic|paranoi[ad]|addict(ed|ion)?|alcoholi\w+",
    re.IGNORECASE,
)
_DIAGNOSING: Final = (
    r"\b(you|he|she|they|{names})\s+(clearly |probably |may |might |must )?"
    r"(have|has|suffers?( from)?|are|is|seems?|sounds?( like)?)\s+(a |an )?({illness})"
)
_SIDES: Final = (
    r"\b(you|{names})('re| are| is) (absolutely |completely |totally |quite |so |simply )?"
    r"(right|wrong|to blame|at fault|being (unfair|selfish|unreasonable|cruel))\b",
    r"\bi (fully |completely |totally )?(agree|side) with (you|{names})\b",
    r"\bi('m| am) on (your|{names}(['’]s)?) side\b",
    r"\b(it('s| is)|this is|that('s| is)) (all |really )?(your|{names}['’]s) (own )?fault\b",
    r"\b(you|{names}) (should|must|need to|ought to|has to|have to) (apologi[sz]e|admit|stop)\b",
    r"\b({names}|your (husband|wife|partner|mother|father|son|daughter))"
    r" (started|began) (it|this)\b",
)
_JOINT: Final = re.compile(
    r"\b(both of you|you both|you two|the two of you|(with|to|at|of|for|between) each other|"
    r"one another|together|as a (couple|team|family)|meet in the middle|compromise|forgive|make up|"
    r"(his|her|their|the other) (side|view|point of view|perspective)|put yourself in|"
    r"turn to (him|her|them|your partner)|tell (him|her|them|your partner)|your part in)\b",
    re.IGNORECASE,
)
_CRISIS: Final = re.compile(
    r"[?？¿“”\"]|\b(suicid\w*|self-harm\w*|kill\w*|die|dying|dead|death|end(ing)? (it|your life)|"
    r"(hurt|harm|cut)(ing)? (yourself|herself|himself|themsel\w+)|crisis|"
    r"tell (me|us) (more|what|how)|say more)\b",
    re.IGNORECASE,
)
_MACHINERY: Final = re.compile(
    r"[{}<>]|```|https?://|\bas an ai\b.*\bmodel\b|\bsystem prompt\b|^\W*(helper|therapist)\s*:",
    re.IGNORECASE,
)


def faults_of(text: str, view: View, target: str) -> tuple[str, ...]:
    """Return what keeps a reply from being sent, as sentence parts; empty when it may be.

    Args:
        text: the reply.
        view: the conversation it answers.
        target: the participant or the group it has to be addressed to.
    """
    found = list(shown_faults(text, view))
    if fault := _address_fault(text, view, target):
        found.append(fault)
    return tuple(found)


def shown_faults(text: str, view: View) -> tuple[str, ...]:
    """Return the faults that already the beginning of a reply can have."""
    found: list[str] = []
    if at_least(text) > MOST_WORDS:
        found.append(f"it is longer than {MOST_WORDS} words")
    if _diagnoses(text, view):
        found.append("it names an illness or judges a character")
    if _takes_sides(text, view):
        found.append("it says who is right or at fault")
    if view.careful and _JOINT.search(text):
        found.append("it asks for a joint step")
    if view.sheltering and view.viewer is None and _CRISIS.search(text):
        found.append("it asks something, quotes, or speaks of somebody's crisis")
    if _MACHINERY.search(text) or _label_shown(text, view):
        found.append("it holds something other than words to be said")
    return tuple(found)


def _address_fault(text: str, view: View, target: str) -> str:
    named = [p for p in view.participants if _says(text, p)]
    if target == view.group:
        alone = len(named) == 1 and len(view.participants) > 1
        return f"it speaks to {named[0]} alone and not to everybody" if alone else ""
    if target in named or len(view.participants) < 2:
        return ""
    return f"it does not address {target} by name"


def _says(text: str, name: str) -> bool:
    # a first name is enough for "Anna Maria"
    wanted = [name, *name.split()[:1]]
    return any(
        re.search(rf"(?<!\w){re.escape(n)}(?!\w)", text, re.IGNORECASE)
        or (not n.isascii() and n in text)
        for n in wanted
    )


def _diagnoses(text: str, view: View) -> bool:
    names = _names(view)
    pattern = _DIAGNOSING.format(names=names, illness=_ILLNESS.pattern)
    if re.search(pattern, text, re.IGNORECASE):
        return True
    said = " ".join(t.text for t in view.turns if not t.by_agent).casefold()
    return any(m.group(0).casefold() not in said for m in _ILLNESS.finditer(text))


def _takes_sides(text: str, view: View) -> bool:
    names = _names(view)
    return any(re.search(p.format(names=names), text, re.IGNORECASE) for p in _SIDES)


def _names(view: View) -> str:
    parts = [re.escape(n) for p in view.participants for n in (p, *p.split()[:1])]
    return "|".join(["he", "she", *dict.fromkeys(parts)])


def _label_shown(text: str, view: View) -> bool:
    machine = [s for s in STRATEGIES[view.scenario] if "_" in s]
    return any(label in text for label in (*machine, *[p for p in view.patterns if "_" in p]))


def tidied(text: str) -> str:
    """Remove what models like to put around a reply: quotation marks, a speaker's tag, breaks."""
    text = " ".join(text.split())
    text = re.sub(r"^(helper|therapist|reply)\s*:\s*", "", text, flags=re.IGNORECASE)
    pairs = {'"': '"', "“": "”", "'": "'", "«": "»"}
    if len(text) > 1 and pairs.get(text[0]) == text[-1] and text.count(text[0]) <= 2:
        text = text[1:-1].strip()
    return text
