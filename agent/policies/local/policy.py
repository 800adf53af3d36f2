"""The embedded default policy: frozen sentence vectors, fitted heads, written replies."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from agent.conversation import Turn, participants_of
from agent.decision import Ranking, Reply, Timing
from agent.encoder import CachedEncoder, Encoder, make_encoder
from agent.labels import THERAPIST, UTTERANCE_TYPES, Scenario, title_of
from agent.memory import ReplyMemory
from agent.policies.base import PolicyError, Task, View
from agent.policies.local import level1
from agent.policies.local.features import Reader
from agent.policies.local.heads import Head, stack
from agent.policies.local.running import Record, Running, addressee_label
from agent.policies.local.sequence import Memory
from agent.policies.local.store import Weights, load
from agent.policies.local.text import masked, surface
from agent.reading import Reading, StanceReading, TurnReading
from agent.replies import ReplyWriter
from agent.settings import Settings
from agent.state import Emotion

Array = NDArray[np.float64]
AddresseeMode = Literal["given", "inferred"]

_CONVERSATIONS: Final = 64
"""Pictures kept in memory; one that fell out is rebuilt from its turns."""


@dataclass
class _Kept:
    scenario: Scenario
    turns: list[Turn]
    running: Running
    memory: Memory
    records: list[Record]
    reader: Reader | None = None
    met: tuple[str, ...] = ()


class LocalPolicy:
    """Reads every turn with the level-1 heads and decides with the level-2 heads.

    Args:
        weights: what it was taught.
        encoder: makes sentence vectors.
        addressees: ``given`` believes a turn's addressees where somebody gave them and infers the
            rest; ``inferred`` always infers those of participants' turns.
        writer: finds the words of a reply; without one every reply is refused.
    """

    name = "local"
    answers: frozenset[Task] = frozenset({"itp", "stp", "ssp", "rpp", "er"})

    def __init__(
        self,
        weights: Weights,
        encoder: Encoder,
        addressees: AddresseeMode = "given",
        writer: Callable[[], ReplyWriter] | None = None,
    ) -> None:
        self.weights = weights
        self.encoder = encoder
        self.addressees: AddresseeMode = addressees
        self.threshold = weights.threshold
        self.version = weights.digest if addressees == "given" else f"{weights.digest}-inferred"
        self._make_writer = writer
        self._writer: ReplyWriter | None = None
        self._kept: OrderedDict[tuple[str, int, int], _Kept] = OrderedDict()

    @classmethod
    def from_settings(cls, settings: Settings) -> LocalPolicy:
        """Return the policy with the shipped weights and the encoder the settings name."""
        encoder = make_encoder(settings.encoder, settings.cache_path / "vectors")

        def writer() -> ReplyWriter:
            # made at the first reply: a replay needs no words and no vector store
            return ReplyWriter(encoder, ReplyMemory(encoder, settings.data_dir))

        return cls(load(), encoder, writer=writer)

    async def prepare(self, dialogues: Sequence[Sequence[Turn]]) -> None:
        """Encode whole dialogues in one go."""
        texts = []
        for turns in dialogues:
            known: tuple[str, ...] = ()
            for turn in turns:
                known = participants_of((turn,), known)
                texts.append(masked(turn.text, known))
        self.encoder.encode(list(dict.fromkeys(texts)))
        if isinstance(self.encoder, CachedEncoder):
            self.encoder.save()

    async def read(self, view: View, new: int) -> Reading:
        """Read the last ``new`` turns."""
        records = self._picture(view).records[len(view.turns) - new :] if new else []
        return Reading(turns=tuple(self._reading(view.scenario, r) for r in records))

    async def pattern(self, view: View, reading: Reading) -> dict[str, float]:
        """Return the pattern's distribution."""
        head = self._head(f"pattern/{view.scenario}")
        proba = head.proba(stack([self._reader(view).pattern()]))[0]
        return dict(zip(head.labels, proba.tolist(), strict=True))

    async def time(self, view: View, reading: Reading) -> Timing:
        """Return the probability that the supporting side should speak now."""
        reader = self._reader(view)
        proba = self._head("timing").proba(stack([reader.timing()]))[0, 1]
        reasons, evidence = _timing_reasons(reader)
        return Timing(probability=float(proba), reasons=reasons, evidence=evidence)

    async def target(self, view: View, reading: Reading) -> Ranking:
        """Rank the people present and the group, each by the same weights."""
        reader = self._reader(view)
        shares = self._head("target").shares(stack(reader.candidates(view.candidates)))
        found = zip(view.candidates, shares.tolist(), strict=True)
        # people nobody could tell apart yet stand in the order of their names
        scores = dict(sorted(found))
        reasons, evidence = _target_reasons(reader, max(scores, key=lambda c: scores[c]))
        return Ranking.of(scores, reasons, evidence)

    async def strategy(self, view: View, reading: Reading, target: str) -> Ranking:
        """Rank the scenario's strategies for a target."""
        reader = self._reader(view)
        head = self._head(f"strategy/{view.scenario}")
        proba = head.proba(stack([reader.strategy(target)]))[0]
        scores = dict(zip(head.labels, proba.tolist(), strict=True))
        pattern = view.relations.pattern if view.relations else {}
        leading = max(pattern, key=lambda p: pattern[p], default="")
        newest = reader.run.newest
        reasons = (
            (f"the pattern looks like {title_of('pattern', view.scenario, leading).lower()}",)
            if leading
            else ()
        )
        ranking = Ranking.of(scores, reasons, (newest.turn_id,) if newest else ())
        return ranking.model_copy(update={"common": True})

    async def reply(self, view: View, reading: Reading, target: str, strategy: str) -> Reply:
        """Say it in the words of the reply library."""
        if self._writer is None:
            if self._make_writer is None:
                raise PolicyError("refused", "no reply library is attached")
            self._writer = self._make_writer()
        return self._writer.write(view, target, strategy, reading, careful=view.careful)

    def _head(self, name: str) -> Head:
        return self.weights.heads[name]

    def _reader(self, view: View) -> Reader:
        kept = self._picture(view)
        if kept.reader is None or kept.met != view.participants:
            kept.running.meet(view.participants)
            sequence = self.weights.sequence
            both = None if sequence is None else (sequence, kept.memory)
            kept.reader, kept.met = Reader(kept.running, both), view.participants
        return kept.reader

    def _picture(self, view: View) -> _Kept:
        """Return the picture after the view's turns, extending a kept one where possible."""
        turns = list(view.turns)
        for back in range(min(len(turns), 4) + 1):
            key = _key(view.scenario, turns[: len(turns) - back])
            kept = self._kept.get(key)
            if kept is not None and kept.turns == turns[: len(kept.turns)]:
                del self._kept[key]
                break
        else:
            kept = _Kept(view.scenario, [], Running(view.scenario), Memory(), [])
        if len(kept.turns) < len(turns):
            kept.reader = None
            self._extend(kept, turns[len(kept.turns) :], view.participants)
        self._kept[_key(view.scenario, turns)] = kept
        while len(self._kept) > _CONVERSATIONS:
            self._kept.popitem(last=False)
        return kept

    def _extend(self, kept: _Kept, turns: Sequence[Turn], present: Sequence[str]) -> None:
        known: tuple[str, ...] = tuple(kept.running.people)
        texts = []
        for turn in turns:
            known = participants_of((turn,), known)
            texts.append(masked(turn.text, {*known, *present}))
        vectors = self.encoder.encode(texts)
        for turn, text, vector in zip(turns, texts, vectors, strict=True):
            counts, wide = surface(text), np.asarray(vector, dtype=np.float64)
            outputs = self.weights.level1.outputs(wide, counts)
            label = addressee_label(turn.addressees, kept.scenario)
            believed = turn.by_agent or (self.addressees == "given" and turn.addressees_given)
            if not (label and believed):
                kept.running.meet(present)
                label = self.weights.listener.infer(kept.running, turn, counts, outputs)
            kept.records.append(kept.running.observe(turn, label, counts, wide, outputs))
            if self.weights.sequence is not None:
                self.weights.sequence.step(kept.memory, kept.running.records, kept.scenario)
            kept.turns.append(turn)

    def _reading(self, scenario: Scenario, record: Record) -> TurnReading:
        addressees = (record.addressee,) if record.addressee else ()
        if record.by_agent:
            scores = record.outputs[level1.SLICES["move"]]
            labels = self._head(f"strategy/{scenario}").labels
            picked = [float(scores[level1.move_index(scenario, s)]) for s in labels]
            return TurnReading(
                turn_id=record.turn_id,
                speaker=record.speaker,
                addressees=addressees,
                strategies=dict(zip(labels, _shares(picked), strict=True)),
            )
        kinds = _shares(record.outputs[level1.SLICES["utterance"]].tolist())
        return TurnReading(
            turn_id=record.turn_id,
            speaker=record.speaker,
            addressees=addressees,
            utterance_types=dict(zip(UTTERANCE_TYPES, kinds, strict=True)),
            emotion=self._emotion(record),
            stances=self._stances(record),
        )

    def _emotion(self, record: Record) -> Emotion:
        words, places = self.weights.level1.feeling_table
        place = record.outputs[level1.SLICES["emotion"]]
        nearest = int(np.argmin(((places - place) ** 2).sum(1)))
        return Emotion(
            description=words[nearest],
            valence=float(np.clip(_value(record, "valence"), -1, 1)),
            intensity=float(np.clip(6 + 2 * _value(record, "intensity"), 0, 10)),
        )

    def _stances(self, record: Record) -> tuple[StanceReading, ...]:
        if record.addressee in ("", THERAPIST):
            return ()
        slope, offset = self.weights.level1.lean
        lean = float(np.clip(slope * _value(record, "warmth") + offset, -1, 1))
        return (
            StanceReading(target=record.addressee, warmth=max(0.0, lean), tension=max(0.0, -lean)),
        )


def _key(scenario: str, turns: Sequence[Turn]) -> tuple[str, int, int]:
    last = turns[-1] if turns else None
    return scenario, len(turns), hash((last.id, last.speaker, last.text) if last else ())


def _value(record: Record, name: str) -> float:
    return float(record.outputs[level1.SLICES[name]][0])


def _shares(scores: Sequence[float]) -> list[float]:
    kept = [max(0.0, s) + 1e-3 for s in scores]
    total = sum(kept)
    return [k / total for k in kept]


def _timing_reasons(reader: Reader) -> tuple[tuple[str, ...], tuple[int, ...]]:
    newest = reader.run.newest
    if newest is None:
        return (), ()
    if newest.addressee == THERAPIST:
        return (f"{newest.speaker} spoke to the supporting side",), (newest.turn_id,)
    return (f"{newest.speaker} spoke to {newest.addressee or 'nobody in particular'}",), (
        newest.turn_id,
    )


def _target_reasons(reader: Reader, first: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    newest = reader.run.newest
    evidence = (newest.turn_id,) if newest else ()
    if first == reader.last:
        return (f"{first} spoke last",), evidence
    if first == reader.run.group:
        return ("it concerns everybody",), evidence
    return (f"{first} has been waiting",), evidence
