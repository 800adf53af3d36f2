"""The record of one decision: what the room shows, hooks receive and the evaluation scores."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

DecisionStatus = Literal[
    "ok",
    "parse_error",
    "refused",
    "content_filter",
    "context_overflow",
    "timeout",
    "http",
    "budget",
]
"""How the decision came about; anything but ``ok`` means that no label was produced."""

DECISION_FORMAT: Final = 1
"""Version of the record's layout, written with every record."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Ranked(_Model):
    """A label with its score (a probability where the policy is calibrated)."""

    label: str
    score: float


class Timing(_Model):
    """Whether to speak now.

    Attributes:
        probability: of intervening, 0 to 1.
        reasons: short sentences.
        evidence: turn ids.
    """

    probability: float = Field(ge=0, le=1)
    reasons: tuple[str, ...] = ()
    evidence: tuple[int, ...] = ()


class Ranking(_Model):
    """Labels, best first, with the reasons for the first.

    Attributes:
        common: the reasons hold whichever label is taken.

    Raises:
        ValueError: when the same label stands twice or the scores increase.
    """

    items: tuple[Ranked, ...]
    reasons: tuple[str, ...] = ()
    evidence: tuple[int, ...] = ()
    common: bool = False

    def model_post_init(self, _: object) -> None:
        """Refuse doubled labels and unsorted scores."""
        labels = [item.label for item in self.items]
        if len(set(labels)) != len(labels):
            raise ValueError(f"doubled labels in a ranking: {labels!r}")
        if any(a.score < b.score for a, b in zip(self.items, self.items[1:], strict=False)):
            raise ValueError("a ranking's scores must not increase")

    @classmethod
    def of(
        cls,
        scores: dict[str, float],
        reasons: tuple[str, ...] = (),
        evidence: tuple[int, ...] = (),
    ) -> Ranking:
        """Sort ``scores`` (label -> score), ties by the order of insertion."""
        ordered = sorted(scores.items(), key=lambda kv: -kv[1])
        items = tuple(Ranked(label=k, score=v) for k, v in ordered)
        return cls(items=items, reasons=reasons, evidence=evidence)


class Reason(_Model):
    """One sentence of the why, by graph node, with the turns it rests on."""

    node: str
    text: str
    evidence: tuple[int, ...] = ()


class Reply(_Model):
    """What the agent says.

    Attributes:
        text: the words.
        source: "library" or "llm".
        frame: id of the library frame, "" for an LLM's reply.
        target: participant or group label it is addressed to.
        strategy: the strategy it realises.
    """

    text: str = Field(min_length=1)
    source: Literal["library", "llm"]
    frame: str = ""
    target: str
    strategy: str


class Decision(_Model):
    """One turn's decision, also when the agent stays silent.

    Attributes:
        format: layout version.
        turn_id: the newest turn that was seen, 0 before any.
        scenario: couple or family.
        intervene: whether the policy would speak.
        probability: of intervening, 0 to 1.
        threshold: the setting it was compared with.
        asked: True when a decision was asked for although the agent might have stayed silent.
        targets: ranked; empty when silent and not asked.
        strategies: ranked, for ``target``; empty when silent and not asked.
        target: whom the strategy ranking holds for.
        pattern: ranked.
        reasons: why, by node.
        evidence: union of the evidence turn ids, ascending.
        policy: the policy's name.
        policy_version: the policy's version.
        status: ok, or what went wrong.
        error: one line without any conversation text, "" when ok.
        reply: what was said, or None.
        timings: node name -> milliseconds; not part of equality across runs.
    """

    format: int = DECISION_FORMAT
    turn_id: int = Field(ge=0)
    scenario: Literal["couple", "family"]
    intervene: bool
    probability: float = Field(ge=0, le=1)
    threshold: float
    asked: bool = False
    targets: tuple[Ranked, ...] = ()
    strategies: tuple[Ranked, ...] = ()
    target: str | None = None
    pattern: tuple[Ranked, ...] = ()
    reasons: tuple[Reason, ...] = ()
    evidence: tuple[int, ...] = ()
    policy: str
    policy_version: str
    status: DecisionStatus = "ok"
    error: str = ""
    reply: Reply | None = None
    timings: dict[str, float] = Field(default_factory=dict)

    @property
    def strategy(self) -> str | None:
        """The leading strategy, or None when none was ranked."""
        return self.strategies[0].label if self.strategies else None
