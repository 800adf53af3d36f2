"""Which alarms rest on the sentence model alone.

The sentence model favours recall: about one line in ten of real sessions raises it. Wording that
leaves it no doubt counts at once in a whisper, and about ending one's life everywhere; other
wording counts the second time.
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
        return (private or flag.kind == "self_harm") and flag.kind in plain[flag.turn_id]

    return frozenset((f.turn_id, f.kind) for f in weak if not sure(f))
