"""Small signs in a turn that change what is said next: yes and no, urgency, questions to the room.

They raise no flag. English, with the crisis words of Spanish, French and Chinese.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

Answer = Literal["yes", "no", "unclear"]
Ask = Literal["ai", "secrecy", "probe", "verdict", "diagnosis", "pause"]

_I = re.IGNORECASE
_YES: Final = re.compile(
    r"^\W*(yes|yeah|yep|yup|i am|i do|i have|sometimes|maybe|a bit|kind of|often|every day|"
    r"s[ií]\b|oui|是|有时|嗯|有)",
    _I,
)
_NO: Final = re.compile(
    r"^\W*(no\b|nope|nah|not really|never|i am not|i'?m not|i do(n'?t| not)|non\b|不|没有)", _I
)
_UNSURE: Final = re.compile(
    r"^\W*(?:well,? |honestly,? )?(?:i (?:really |honestly )?(?:don'?t|do not) (?:really |even )?"
    r"(?:know|want to (?:say|talk|answer|think))|i dunno|dunno|(?:i'?m |i am )?not (?:so |really |"
    r"quite |entirely )?sure|no (?:idea|clue|comment)|no ?one\b|no (?:lo )?s[eé]\b|"
    r"(?:je )?(?:ne )?sais pas|不知道|不确定|不清楚)",
    _I,
)
_AFRAID: Final = re.compile(
    r"\b(unsafe|(?<!not )(?:(?:so|very|really|too|still|always) )?(?<!not )(?:scared|afraid|"
    r"frightened|terrified)|not (?:really |very |so )?safe|(?:don'?t|do not|never) feel safe)\b",
    _I,
)
_HALF: Final = re.compile(
    r"^\W*(sometimes|maybe|a bit|kind of|often|i have|有时)|"
    r"\b(but|except|until|unless|pero|mais)\b|但",
    _I,
)
_URGENT_SELF: Final = re.compile(
    r"\b(tonight|right now|now|today|this (evening|night|minute)|in front of me|in my hand|"
    r"beside me|next to me|already (took|taken|swallowed|cut)|i (took|swallowed|have|bought|saved|"
    r"wrote|made)\b.{0,40}\b(pills|tablets|gun|rope|knife|note|letter|plan|blade|bottle)|"
    r"(pills|tablets|gun|rope|blade)\b.{0,40}\b(ready|here|drawer|counted|saved)|saving up|"
    r"stockpil\w+|standing on|on the (bridge|roof|ledge|edge|tracks)|goodbye|"
    r"esta noche|ahora mismo|ya (tom[eé]|tengo)|ce soir|maintenant|j'ai pris)\b|今晚|现在就|已经吃",
    _I,
)
_URGENT_OTHER: Final = re.compile(
    r"\b(right now|as i (write|type)|outside (the|my) door|at the door|in the next room|is coming|"
    r"(has|have|with|holding|got) (a|the|his|her) (knife|gun|weapon|bat|belt)|locked (me|us) in|"
    r"(won'?t|will not|can'?t|cannot) (let me )?(leave|get out)|choking|strangl\w+|bleeding|"
    r"tonight|going to kill|will kill|ahora mismo|en este momento|en ce moment|tout de suite)\b|"
    r"现在|正在",
    _I,
)
_MEANS: Final = re.compile(r"\b(pills|tablets|gun|rope|blade|razor|overdose)\b", _I)
_SHUT: Final = re.compile(
    r"\b(knife|gun|weapon|strangl\w+|chok(ed|ing)|pinned|locked (me|us) in|"
    r"(won'?t|will not) let (me|us) (leave|out|go))\b",
    _I,
)
_ASKS: Final[tuple[tuple[Ask, re.Pattern[str]], ...]] = (
    (
        "probe",
        re.compile(
            r"\b(what|did|has|have|tell|show|repeat|reveal|summari[sz]e|share|quote|print)\b.{0,80}"
            r"\b(whisper\w*|in private|privately|in secret|(to|with) you (alone|only)|only to you|"
            r"behind my back|private (message|talk|chat|note)s?)",
            _I,
        ),
    ),
    (
        "secrecy",
        re.compile(
            r"\b(keep (this|it|that|a) (\w+ )?(secret|between us|to yourself)|can you keep (a )?"
            r"secret|(promise|swear)\b.{0,30}\b(tell|secret)|(don'?t|do not|never|you won'?t|"
            r"you will not|will you) tell (him|her|them|anyone|anybody|mum|mom|dad|my \w+|the "
            r"others?)|is this (private|confidential|secret)|who (can|will|else) (see|sees|read|"
            r"reads) (this|what))",
            _I,
        ),
    ),
    (
        "ai",
        re.compile(
            r"\b(are you|r u|am i (talking|speaking|writing) (to|with)|is kith|is this)\b.{0,25}"
            r"\b(real|human|person|therapist|counsel\w+|psycholog\w+|doctor|bot|robot|ai|machine|"
            r"program|professional)\b",
            _I,
        ),
    ),
    (
        "diagnosis",
        re.compile(
            r"\b(is|am|does|do|has|would you say|diagnos\w+)\b.{0,40}\b(narcissis\w+|bipolar|"
            r"borderline|psychopath\w*|sociopath\w*|adhd|autis\w+|depress(ed|ion)|ptsd|ocd|"
            r"personality disorder|mentally ill)\b.{0,20}\?|\bdiagnose (me|him|her|us|them)\b",
            _I,
        ),
    ),
    (
        "verdict",
        re.compile(
            r"\bwho(?:'s| is| was)? (?:(?:do you think|of us|here) )*(?:is |was )?(right|wrong|at "
            r"fault|to blame|the bad one|the problem|being (unreasonable|unfair))\b|"
            r"\bwhose fault\b|"
            r"\btell (him|her|them|my \w+|\w+) (that )?(he|she|they)('s| is| are|'re) (\w+ )?"
            r"(wrong|unfair|unreasonable|selfish|crazy|to blame)\b|"
            r"\b(am i|i'?m|is (he|she)) (not )?"
            r"(right|wrong)(,? (aren'?t i|am i not|isn'?t (he|she)))?\?|\btake (my|a) side\b|"
            r"\bwhose side\b|\bagree with me\b.{0,12}\?|\bjudge (us|between us)\b",
            _I,
        ),
    ),
)
_PAUSE: Final = re.compile(r"^\W*(please )?(ask for a |a )?(pause|break)( please| now)?\W*$", _I)
_AGE: Final = re.compile(
    r"\bi(?:'m| am) (?:only |just )?(?:\b([5-9]|1[0-7])\b(?! (?:minutes|hours|days|weeks|months|"
    r"years (?:older|into|sober)))|(?:eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|"
    r"sixteen|seventeen)\b(?: years| and|[.,!]|$))|\bi(?:'m| am) in (?:the )?(?:[3-9]th|1[0-2]th) "
    r"grade\b|\bi(?:'m| am) in (?:primary|elementary|middle|secondary|high) school\b|"
    r"\bmy (?:homeroom teacher|year [7-9] class)\b",
    _I,
)
_ADULT: Final = re.compile(
    r"\b(sex|sexual\w*|sleep(ing)? with|slept with|affair|cheat(ed|ing)? on|porn\w*|naked|orgasm|"
    r"in bed with|your lover|his lover|her lover|divorc(e|ing) you|intimacy|condom|libido)\b",
    _I,
)
_MUTUAL: Final = re.compile(
    r"\bwe (both )?(hit|slap|push|shove|hurt|beat|throw things at|scratch|kick)(ed|s)? (each other|"
    r"one another)\b|\bwe (both|each) (hit|slap|push|hurt|beat)",
    _I,
)
_SPANISH: Final = frozenset(
    "que no me mi yo el la los una un por para con estoy quiero muy esta vida ya se lo te".split()
)
_FRENCH: Final = frozenset(
    "je ne pas me mon ma le les une un pour avec suis veux tres cette vie est il elle tu te ce "
    "moi plus j".split()
)
_ENGLISH: Final = frozenset(
    "i the to my is a and you not it of in he she they we that me am are was do don so no idea "
    "never yes maybe".split()
)


def answer(text: str, about_safety: bool = False) -> Answer:
    """Read a reply to a direct question; anything that is neither yes nor no is unclear.

    Args:
        text: the reply.
        about_safety: whether the question was if somebody is safe: half a yes is none there, and
            fear says no.
    """
    if _UNSURE.search(text):
        return "unclear"
    if about_safety and _AFRAID.search(text):
        return "no"
    if about_safety and _HALF.search(text) and not _NO.search(text):
        return "unclear"
    if _NO.search(text):
        return "no"
    return "yes" if _YES.search(text) else "unclear"


def urgent(text: str, self_harm: bool) -> bool:
    """Return whether the words speak of now, of means at hand or of a way that is shut."""
    return (_URGENT_SELF if self_harm else _URGENT_OTHER).search(text) is not None


def at_hand(text: str, self_harm: bool) -> bool:
    """Return whether the words name a means, a weapon or a way that is shut: more than "now"."""
    if self_harm:
        return _MEANS.search(text) is not None
    return _SHUT.search(text) is not None


def asked(text: str, private: bool) -> Ask | None:
    """Return which question about the room the turn asks, or None."""
    if private and _PAUSE.search(text):
        return "pause"
    return next((name for name, pattern in _ASKS if pattern.search(text)), None)


def minor_hint(text: str) -> bool:
    """Return whether the speaker says to be under eighteen."""
    return _AGE.search(text) is not None


def adult_topic(text: str) -> bool:
    """Return whether the turn is about sex, affairs or a separation: not for a child's ears."""
    return _ADULT.search(text) is not None


def mutual(text: str) -> bool:
    """Return whether the speaker says that both hurt each other."""
    return _MUTUAL.search(text) is not None


def language_of(text: str, default: str = "en") -> str:
    """Return ``en``, ``es``, ``fr`` or ``zh`` by the words used, else ``default``."""
    if re.search(r"[\u4e00-\u9fff]", text):
        return "zh"
    words = re.findall(r"[a-záéíóúñüàâçèêëîïôûœ]+", text.lower())
    if len(words) < 2:
        return default
    counts = {
        "es": _hits(words, _SPANISH) + len(re.findall(r"[ñ¿¡]", text)),
        "fr": _hits(words, _FRENCH) + len(re.findall(r"[çèêœ]", text)),
        "en": _hits(words, _ENGLISH),
    }
    best = max(counts, key=lambda k: counts[k])
    return best if counts[best] and list(counts.values()).count(counts[best]) == 1 else default


def _hits(words: Sequence[str], known: frozenset[str]) -> int:
    return sum(w in known for w in words)
