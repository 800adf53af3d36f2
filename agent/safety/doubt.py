"""Which alarms rest on the sentence model alone.

The sentence model favours recall: many lines of an ordinary quarrel raise it. Said to everybody,
nothing follows from it alone. In a whisper, wording that leaves the model no doubt counts at once,
and other wording the second time.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from agent.safety import people, semantic
from agent.safety.rules import read_turns
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
    if not weak:
        return frozenset()
    wanted = {f.turn_id for f in weak}
    plain: dict[int, set[Kind]] = {}
    for read in read_turns(turns, people.names(turns, participants)):
        if read.turn_id in wanted:
            pairs = (" ".join(pair) for pair in itertools.pairwise(read.sentences))
            parts = [*read.sentences, *pairs]
            found = semantic.alarms(parts)
            plain[read.turn_id] = {a.kind for alarms in found for a in alarms if a.plain}

    def sure(flag: Flag) -> bool:
        return private and flag.kind in plain[flag.turn_id]

    return frozenset((f.turn_id, f.kind) for f in weak if not sure(f))
