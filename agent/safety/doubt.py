"""Which alarms rest on the sentence model alone.

The sentence model favours recall: about one line in forty of real sessions raises it. In a
whisper every alarm counts at once. Aloud, wording that leaves it no doubt counts at once; other
wording counts the second time.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent.safety import people, semantic
from agent.safety.rules import read_turns
from agent.safety.text import readings
from agent.safety.types import Flag, Kind, TurnLike

_PREFIX = "sentence_model."


def doubtful(
    flags: Sequence[Flag],
    turns: Sequence[TurnLike],
    participants: Sequence[str] = (),
    *,
    private: bool = False,
) -> frozenset[tuple[int, Kind]]:
    """Return (turn id, kind) of the alarms that leave doubt.

    Args:
        flags: what ``check`` found in ``turns``.
        turns: the conversation, oldest first.
        participants: people in the room.
        private: whether they were whispered.
    """
    weak = [f for f in flags if f.evidence.rule.startswith(_PREFIX)]
    if private or not weak:
        return frozenset()
    wanted = {f.turn_id for f in weak}
    plain: dict[int, set[Kind]] = {}
    for read in read_turns(turns, people.names(turns, participants)):
        if read.turn_id in wanted:
            found = semantic.alarms(readings(read.sentences))
            plain[read.turn_id] = {a.kind for alarms in found for a in alarms if a.plain}

    return frozenset((f.turn_id, f.kind) for f in weak if f.kind not in plain[f.turn_id])
