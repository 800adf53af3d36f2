"""The rule layer: find concerns in a conversation with no network and no language model.

Patterns (``prompts/safety/rules``), pairs of single signs, and a small sentence model are read
turn by turn; anything one of them finds becomes a flag. Only an LLM check may clear a flag.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent.encoder import EncoderError
from agent.labels import GROUP_LABEL, THERAPIST
from agent.safety import people, semantic, signs
from agent.safety.engine import Hit, fold, load_guards, load_rules, match_rule, simplify
from agent.safety.text import canonical, plain, readings, sentences
from agent.safety.types import Evidence, Flag, Kind, TurnLike

_BOT_NAMES = frozenset({"therapist", "kith", "bot", "assistant", "agent", "ai"})
_DENIAL = re.compile(
    r"\b(?:you (?:have )?misunderst(?:ood|and)|(?:did not|do not) mean (?:it|that|anything)|"
    r"not what i meant|(?:just|only) (?:joking|kidding|a joke|venting|being dramatic)|"
    r"forget (?:it|i said|that|what i said)|never ?mind|ignore (?:that|what i said|me)|"
    r"i am (?:fine|ok|okay|alright|good)|drop it|not (?:a )?big deal|it was nothing|"
    r"i was (?:exaggerating|being dramatic|joking|kidding|tired|drunk)|taking it too seriously|"
    r"do not worry about (?:it|me)|everything is fine|no need to worry|over ?reacting)\b"
)
_BOT_WORDS = re.compile(r"\b(?:bot|ai|app|chat|chatbot|kith|program|machine|this room|assistant)\b")
_ENDEARMENT = re.compile(r"\b(?:babe|baby|honey|love of my life|darling|sweetheart|my love|dear)\b")
# what still clears the sentence model's finding: it has learned everyday life itself
_SEMANTIC_GUARDS = ("idiom", "past", "fiction", "joke")
_MORE_GUARDS: dict[Kind, tuple[str, ...]] = {
    "self_harm": ("negated_self",),
    "coercive_control": ("parental", "free"),
}
_DENIAL_REACH = 6
_ENGLISH = frozenset(
    "i the to he my me is a and you not it of in for we they that this was are am have has do "
    "with be but so at if will can all him his your".split()
)
_SHARED = frozenset("me a he has all am in at is so".split())
"""Words that Spanish or French have as well."""
_FOREIGN = frozenset(
    "de la el los las que en un una mi yo tu se lo por con para pero muy es esta estoy del al "
    "le les je tu il elle nous vous ne pas des du et est suis ai ma mon mes sa son ses une "
    "dans pour avec sur ca mais quand plus ich und der die das nicht ist".split()
)


@dataclass(frozen=True, slots=True)
class Read:
    """A turn as the rules read it."""

    turn_id: int
    speaker: str
    raw: str
    text: str
    sentences: tuple[str, ...]
    by_bot: bool
    to_bot: bool


def is_bot(name: str) -> bool:
    """Return whether a speaker's name stands for the room's agent."""
    return name == THERAPIST or name.strip().lower() in _BOT_NAMES


def read_turns(turns: Sequence[TurnLike], names: Sequence[str]) -> list[Read]:
    """Return every turn in canonical form.

    Args:
        turns: The conversation, oldest first.
        names: Participants' names, in a fixed order.
    """
    humans = {t.speaker for t in turns if not is_bot(t.speaker)} | set(names)
    out: list[Read] = []
    for index, turn in enumerate(turns):
        text = canonical(turn.text, names)
        given = tuple(getattr(turn, "addressees", ()))
        if given and not set(given) & set(GROUP_LABEL.values()):
            to_bot = any(is_bot(a) for a in given)
        else:
            after_bot = index > 0 and is_bot(turns[index - 1].speaker)
            to_bot = len(humans) < 2 or after_bot
        out.append(
            Read(
                turn_id=int(getattr(turn, "id", index)),
                speaker=turn.speaker,
                raw=plain(turn.text),
                text=text,
                sentences=tuple(sentences(text)),
                by_bot=is_bot(turn.speaker),
                to_bot=to_bot,
            )
        )
    return out


def _to_bot(read: Read) -> bool:
    if _ENDEARMENT.search(read.text):
        return False
    return (
        read.to_bot
        or bool(_BOT_WORDS.search(read.text))
        or bool(re.search(r"\b(?:understands?|gets?|helps?|listens? to|left for) us\b", read.text))
    )


def _pattern_hits(read: Read) -> list[Hit]:
    hits = []
    foreign = [fold(s) for s in sentences(read.raw) if not _surely_english(s)]
    chinese = re.split("[。！？!?\n]", simplify(read.raw))
    for rule in load_rules():
        if rule.to_bot and not _to_bot(read):
            continue
        if rule.language == "en":
            parts = [read.text] if rule.whole_turn else read.sentences
        else:
            parts = foreign if rule.language != "zh" else chinese
        for part in parts:
            if part and (match := match_rule(rule, part)) is not None:
                hits.append(Hit(rule, match, part))
                break
    return hits


def _cleared(kind: Kind, sentence: str) -> bool:
    guards = load_guards()
    names = (*_SEMANTIC_GUARDS, *_MORE_GUARDS.get(kind, ()))
    return any(guards[name].clears(sentence) for name in names)


def _known_words(text: str) -> tuple[list[str], list[str], list[str]]:
    words = re.findall(r"[a-z]+", text)
    ours, others = ([w for w in words if w in known] for known in (_ENGLISH, _FOREIGN))
    return words, ours, others


def _surely_english(text: str) -> bool:
    _, ours, others = _known_words(text)
    return len([w for w in ours if w not in _SHARED]) > len(others)


def _english(text: str) -> bool:
    """Return whether a canonical sentence is one that the sentence model can read."""
    words, ours, others = _known_words(text)
    plain = sum(c.isascii() for c in text) > 0.9 * len(text)
    return len(words) >= 4 and plain and (len(ours) > len(others) or not others)


def _parts(read: Read) -> list[tuple[str, str]]:
    return [pair for pair in readings(read.sentences) if _english(pair[0])]


def _semantic_kinds(read: Read) -> dict[Kind, str]:
    parts = _parts(read)
    found: dict[Kind, str] = {}
    for (part, _), alarms in zip(parts, semantic.alarms(parts), strict=True):
        for alarm in alarms:
            if alarm.kind == "dependency" and not _to_bot(read):
                continue
            if alarm.kind not in found and not _cleared(alarm.kind, part):
                found[alarm.kind] = part
    return found


def _flag(read: Read, kind: Kind, rule: str, ids: tuple[int, ...], who: people.Roles) -> Flag:
    return Flag(
        kind=kind,
        turn_id=read.turn_id,
        speaker=read.speaker,
        about=who.about,
        actor=who.actor,
        evidence=Evidence(rule=rule, turn_ids=ids),
    )


def _turn_flags(reads: Sequence[Read], names: Sequence[str], use_model: bool) -> list[Flag]:
    read = reads[-1]
    flags: dict[Kind, Flag] = {}
    for hit in _pattern_hits(read):
        roles = people.roles(hit, read.speaker, names)
        for kind in hit.rule.kinds:
            if kind not in flags:
                flags[kind] = _flag(read, kind, hit.rule.id, (read.turn_id,), roles)
    for kind, ids in signs.pairs(reads).items():
        if kind not in flags:
            roles = people.plain_roles(kind, read.text, read.speaker, names)
            flags[kind] = _flag(read, kind, f"signs.{kind}", ids, roles)
    if use_model:
        for kind, part in _semantic_kinds(read).items():
            if kind not in flags:
                roles = people.plain_roles(kind, part, read.speaker, names)
                flags[kind] = _flag(read, kind, f"sentence_model.{kind}", (read.turn_id,), roles)
    return list(flags.values())


def _denial(read: Read, earlier: Sequence[Flag], position: dict[int, int]) -> list[Flag]:
    """Keep a concern open when its speaker takes it back (S3)."""
    if not _DENIAL.search(read.text):
        return []
    out: dict[Kind, Flag] = {}
    for flag in earlier:
        near = position[read.turn_id] - position[flag.turn_id] <= _DENIAL_REACH
        if near and flag.speaker == read.speaker and flag.kind != "dependency":
            evidence = Evidence(
                rule="denial_after_disclosure", turn_ids=(flag.turn_id, read.turn_id)
            )
            out[flag.kind] = flag.model_copy(update={"turn_id": read.turn_id, "evidence": evidence})
    return list(out.values())


def check(
    turns: Sequence[TurnLike],
    participants: Sequence[str] = (),
    scenario: str = "",
    *,
    use_model: bool = True,
) -> list[Flag]:
    """Return every flag the rules raise in a conversation, in turn order.

    Args:
        turns: The conversation, oldest first; turns by the room's agent raise nothing.
        participants: People in the room; speakers are added to them.
        scenario: The relation, such as ``couple`` or ``family``; it names no one at risk and
            changes no threshold.
        use_model: False reads patterns and signs only.

    Raises:
        SafetyDataError: If a rule file or the weights cannot be read.
    """
    names = people.names(turns, participants)
    reads = read_turns(turns, names)
    position = {read.turn_id: index for index, read in enumerate(reads)}
    if use_model:
        use_model = _warm(reads)
    flags: list[Flag] = []
    for index, read in enumerate(reads):
        if read.by_bot:
            continue
        found = _turn_flags(reads[: index + 1], names, use_model)
        kinds = {f.kind for f in found}
        found += [f for f in _denial(read, flags, position) if f.kind not in kinds]
        flags += found
    return flags


def _warm(reads: Sequence[Read]) -> bool:
    """Encode every sentence in one batch; return False where the encoder's weights are absent."""
    parts = [part for r in reads if not r.by_bot for part in _parts(r)]
    try:
        semantic.alarms(parts)
    except EncoderError:
        # patterns must keep working on a machine without the weights (S28)
        return False
    return True


def check_turn(
    turn: TurnLike,
    history: Sequence[TurnLike] = (),
    participants: Sequence[str] = (),
    scenario: str = "",
    *,
    use_model: bool = True,
) -> list[Flag]:
    """Return the flags raised by one new turn, read in the light of the turns before it.

    Args:
        turn: The new turn.
        history: The turns before it, oldest first.
        participants: People in the room.
        scenario: As in ``check``.
        use_model: As in ``check``.

    Raises:
        SafetyDataError: If a rule file or the weights cannot be read.
    """
    turns = [*history, turn]
    new = int(getattr(turn, "id", len(history)))
    flags = check(turns, participants, scenario, use_model=use_model)
    return [flag for flag in flags if flag.turn_id == new]
