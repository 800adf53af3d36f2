"""Writes a reply without a language model: our own frames, the people's own words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent.decision import Reply
from agent.encoder import Encoder
from agent.labels import check_label
from agent.policies.base import PolicyError, View
from agent.reading import Reading
from agent.replies.choose import (
    LOOK_BACK,
    Moment,
    best,
    conditions_now,
    fitting,
    leading_pattern,
    may_quote,
)
from agent.replies.fill import MOST_REPLY_WORDS, Addressee, fill, other_person, slot_values
from agent.replies.library import ANY, PRIVATE, SHELTERING, Frame, TargetKind

if TYPE_CHECKING:
    # the memory reads the library, so it is imported for its type only
    from agent.memory import ReplyMemory

BLAMELESS: Final = frozenset({"reframe", "detach", "enact"})
"""Strategies whose frames take for granted that nobody is at fault."""

_SITUATION_TURNS: Final = 4
_SITUATION_CHARS: Final = 400


class ReplyWriter:
    """Says a decided strategy to a decided target in words of the reply library.

    Args:
        encoder: reads the situation; the one the memory's vectors were made with.
        memory: the reply library's vectors.

    Raises:
        ValueError: when the memory was made with another encoder.
    """

    def __init__(self, encoder: Encoder, memory: ReplyMemory) -> None:
        if memory.encoder_name != encoder.name:
            raise ValueError(
                f"the reply memory holds vectors of {memory.encoder_name!r}, not {encoder.name!r}"
            )
        self._encoder = encoder
        self._memory = memory

    def write(
        self,
        view: View,
        target: str,
        strategy: str,
        reading: Reading | None = None,
        *,
        careful: bool = False,
    ) -> Reply:
        """Return what to say.

        The same view, target and strategy always give the same reply. No frame of the agent's
        last five replies is used again; at most a third of replies quote, and only the
        addressed person's latest own words.

        Args:
            view: what may be known.
            target: a participant or the group label. A private talk always addresses its viewer.
            strategy: one of the scenario's.
            reading: of the newest turns, when they are not in the view's readings yet.
            careful: leaves out all frames that take for granted that nobody is at fault (to be
                set where somebody may be in danger from another).

        Raises:
            PolicyError: status ``refused`` when there is nobody to address.
            UnknownLabel: when the scenario has no such strategy.
        """
        check_label("strategy", view.scenario, strategy)
        to = _addressee(view, target)
        moment = self._moment(view, to, reading, careful)
        chosen = self._choose(view, strategy, moment, careful)
        text = fill(chosen, moment.values)
        if len(text.split()) > MOST_REPLY_WORDS:
            raise PolicyError("refused", f"frame {chosen.id} came out too long")
        return Reply(text=text, source="library", frame=chosen.id, target=target, strategy=strategy)

    def _moment(self, view: View, to: Addressee, reading: Reading | None, careful: bool) -> Moment:
        said = [" ".join(t.text.split()) for t in view.turns if t.by_agent][-LOOK_BACK:]
        other = other_person(view, to.one) if to.one else None
        pattern, probability = leading_pattern(_patterns(view, reading))
        values = slot_values(view, to, other, reading, said)
        return Moment(
            kinds=_kinds(to, careful),
            values=values,
            holds=conditions_now(view, to, other, hurting="feeling" in values),
            pattern=pattern,
            pattern_probability=probability,
            said=said,
            quote=may_quote(said),
        )

    def _choose(self, view: View, strategy: str, moment: Moment, careful: bool) -> Frame:
        for scenario, wanted in _places(view, strategy, careful):
            found = fitting(self._memory.library.of(scenario, wanted), moment)
            if found:
                nearness = self._memory.nearness(self._situation(view), scenario, wanted)
                return best(found, moment, nearness)
        raise PolicyError("refused", "no reply frame fits here")

    def _situation(self, view: View) -> list[float]:
        texts = [t.text[-_SITUATION_CHARS:] for t in view.turns[-_SITUATION_TURNS:]]
        # lone surrogates cannot be tokenised
        joined = " ".join(texts).encode("utf-8", "replace").decode("utf-8")
        return [float(x) for x in self._encoder.encode([joined])[0]]


def _addressee(view: View, target: str) -> Addressee:
    if view.viewer is not None:
        return Addressee(view.viewer, view.participants)
    if target in view.participants:
        return Addressee(target, view.participants)
    if target != view.group or not view.participants:
        raise PolicyError("refused", "there is nobody of that name to address")
    if len(view.participants) == 1:
        return Addressee(view.participants[0], view.participants)
    return Addressee(None, view.participants)


def _kinds(to: Addressee, careful: bool) -> frozenset[TargetKind]:
    if to.one is not None:
        return frozenset({"one"})
    if len(to.present) == 2 and not careful:
        return frozenset({"pair", "group"})
    return frozenset({"group"})


def _places(view: View, strategy: str, careful: bool) -> list[tuple[str, str]]:
    """Return where to look for a frame, best place first."""
    if view.viewer is not None:
        return [(ANY, PRIVATE)]
    if view.sheltering:
        return [(ANY, SHELTERING)]
    general = (ANY, ANY)
    if careful and strategy in BLAMELESS:
        return [general]
    return [(view.scenario, strategy), general]


def _patterns(view: View, reading: Reading | None) -> dict[str, float]:
    if view.relations is not None and view.relations.pattern:
        return view.relations.pattern
    return reading.pattern if reading is not None and reading.pattern else {}
