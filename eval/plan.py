"""What a replay will do: variants, samples, points and the manifest that pins all of it."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from agent.labels import SCENARIOS, UnknownLabel
from agent.llm import LLMClient
from agent.policies import LLM_NAMES, POLICY_NAMES, Policy, UnknownPolicy, make_policy
from agent.rescue import Sample
from agent.rescue.splits import group_of, select
from agent.rescue.turns import MODES
from agent.settings import Settings
from eval.data.locate import DataSource
from eval.instances import (
    TASKS,
    ItpInstance,
    Task,
    build_instances,
    natural_itp_instances,
    rpp_unlabelled_rows,
)
from eval.metrics import EVAL_VERSION
from eval.points import Point, build_points
from eval.runner import Protocol, ReplayOptions
from eval.store import Batch

FLOORS: Final = tuple(name for name in POLICY_NAMES if name.startswith("floor-"))
NO_STATE: Final = "-no-state"
"""Ending of a variant that is not shown the relational state."""
PROTOCOLS: Final[tuple[Protocol, ...]] = ("paper", "live")
PACKAGES: Final = (
    "chromadb",
    "langchain-core",
    "langchain-openai",
    "langgraph",
    "matplotlib",
    "numpy",
    "onnxruntime",
    "openai",
    "pydantic",
    "scikit-learn",
    "sentence-transformers",
    "tokenizers",
    "torch",
    "transformers",
)
LLM_SETTINGS: Final = (
    "model",
    "openai_base_url",
    "temperature",
    "max_tokens",
    "rung",
    "extra_body",
    "context_tokens",
)
"""Settings that shape a model's answers; they bind a run only where a model answers."""


@dataclass(frozen=True)
class Variant:
    """One line of the table.

    Attributes:
        name: as in the records.
        policy: the policy's name.
        withhold_state: whether the relational state is hidden from it.
    """

    name: str
    policy: str
    withhold_state: bool

    def make(self, settings: Settings, repeat: int = 0, client: LLMClient | None = None) -> Policy:
        """Return the policy; a repeat draws with the next seed (a model is told the repeat)."""
        if uses_llm(self.policy):
            return make_policy(self.policy, settings, client)
        return make_policy(
            self.policy, settings.model_copy(update={"seed": settings.seed + repeat})
        )


@dataclass(frozen=True)
class Choice:
    """What was asked for on the command line.

    Attributes:
        split: train, dev, test or all.
        variants: names, "floors" for all floors.
        tasks: the tasks.
        context: rows before a point that are shown, None for all.
        mode: RESCUE's input mode.
        addressees: given or inferred.
        protocol: paper or live.
        limit: only the first samples.
        sample_ids: only these samples, None for all.
        repeats: how often each variant runs.
        concurrency: samples in flight; shapes no answer.
        counterbalance: whether each point is asked once more with names and order changed.
    """

    split: str = "dev"
    variants: tuple[str, ...] = ("local", "floors")
    tasks: tuple[Task, ...] = TASKS[:4]
    context: int | None = None
    mode: str = "dialogue"
    addressees: str = "given"
    protocol: str = "paper"
    limit: int | None = None
    sample_ids: tuple[str, ...] | None = None
    repeats: int = 1
    concurrency: int = 1
    counterbalance: bool = False

    def options(self, repeat: int = 0) -> ReplayOptions:
        """Return the runner's options.

        Raises:
            UnknownLabel: naming what is allowed.
        """
        if self.addressees not in ("given", "inferred"):
            raise UnknownLabel("--addressees", self.addressees, ("given", "inferred"))
        protocol = next((p for p in PROTOCOLS if p == self.protocol), None)
        if protocol is None:
            raise UnknownLabel("--protocol", self.protocol, PROTOCOLS)
        mode = next((m for m in MODES if m == self.mode), None)
        if mode is None:
            raise UnknownLabel("mode", self.mode, MODES)
        return ReplayOptions(
            self.context, mode, self.addressees, self.concurrency, protocol, repeat
        )


@dataclass(frozen=True)
class Plan:
    """Everything about a replay before it starts.

    Attributes:
        choice: what was asked for.
        source: the data.
        settings: of the agent.
        variants: the variants.
        policies: an instance of each variant's policy.
        samples: the chosen samples.
        points: the points of each sample that has any.
        client: of the model server, shared by all variants; None where no variant asks one.
    """

    choice: Choice
    source: DataSource
    settings: Settings
    variants: tuple[Variant, ...]
    policies: Mapping[str, Policy]
    samples: tuple[Sample, ...]
    points: tuple[tuple[Point, ...], ...]
    client: LLMClient | None = None

    def answered(self, variant: str, points: Sequence[Point]) -> list[str]:
        """Return the ids of the units of a sample that a variant answers, in order."""
        tasks = self.policies[variant].answers
        return [u.id for point in points for u in point.units if u.task in tasks]

    def batches(self) -> Iterator[tuple[Batch, tuple[Point, ...], list[str]]]:
        """Yield each batch with its points and units, in the order of the run."""
        for variant in self.variants:
            for repeat in range(self.choice.repeats):
                for points in self.points:
                    units = self.answered(variant.name, points)
                    if units:
                        yield (variant.name, repeat, points[0].sample.sample_id), points, units

    def order(self) -> dict[tuple[str, int, str], int]:
        """Return the place of each (variant, repeat, unit) in the finished predictions."""
        keys = ((*batch[:2], unit) for batch, _, units in self.batches() for unit in units)
        return {key: place for place, key in enumerate(keys)}

    def configuration(self) -> dict[str, Any]:
        """Return what shapes the answers, as it stands in the manifest."""
        chosen = self.choice
        found: dict[str, Any] = {
            "split": chosen.split,
            "variants": [v.name for v in self.variants],
            "tasks": list(chosen.tasks),
            "context": chosen.context,
            "mode": chosen.mode,
            "addressees": chosen.addressees,
            "protocol": chosen.protocol,
            "limit": chosen.limit,
            "sample_ids": list(chosen.sample_ids) if chosen.sample_ids is not None else None,
            "repeats": chosen.repeats,
            "seed": self.settings.seed,
            "encoder": self.settings.encoder,
        }
        if chosen.counterbalance:
            # only where it is wanted: runs without it keep their hash
            found["counterbalance"] = True
        if any(uses_llm(v.policy) for v in self.variants):
            values = self.settings.model_dump(mode="json", include=set(LLM_SETTINGS))
            found["llm"] = {name: values[name] for name in LLM_SETTINGS if name in values}
            if self.settings.openai_base_url:
                found["llm"]["openai_base_url"] = without_secrets(self.settings.openai_base_url)
        return found

    def manifest(self) -> dict[str, Any]:
        """Return the manifest: written before any work, never changed after."""
        configuration = self.configuration()
        commit, dirty = git_state()
        unlabelled = rpp_unlabelled_rows(self.samples) if "rpp" in self.choice.tasks else ()
        units = [
            [u.id, u.task, p.sample.sample_id, u.instance.row]
            for points in self.points
            for p in points
            for u in p.units
        ]
        return {
            "eval_version": EVAL_VERSION,
            "made": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "commit": commit,
            "dirty": dirty,
            "configuration": configuration,
            "configuration_sha256": digest(configuration),
            "data": {
                "kind": self.source.kind,
                "collection": self.source.collection,
                "sha256": self.source.sha256,
            },
            "data_path": str(self.source.path),
            "banner": self.source.banner,
            "policies": {name: policy.version for name, policy in self.policies.items()},
            "seed": self.settings.seed,
            "prompts": prompt_hashes(),
            "packages": {"python": platform.python_version(), **package_versions()},
            "rpp_unlabelled": {s: sum(x[1] == s for x in unlabelled) for s in SCENARIOS},
            "groups": {s.sample_id: group_of(s.sample_id) for s in self.samples},
            "units_sha256": digest(units),
            "unit_fields": ["unit", "task", "sample_id", "row"],
            "units": units,
            "batches": [
                {"variant": b[0], "repeat": b[1], "sample_id": b[2], "units": len(ids)}
                for b, _, ids in self.batches()
            ],
        }


def make_plan(choice: Choice, source: DataSource, settings: Settings) -> Plan:
    """Resolve names, choose the samples and find the points.

    Raises:
        UnknownPolicy: for a variant that does not exist.
        UnknownLabel: for a wrong mode, protocol or addressees.
        SplitError: for a wrong split, or ids the data does not hold.
        DataError: for data that cannot be read.
    """
    choice.options()
    variants = resolve_variants(choice.variants)
    samples = select(source.sound(), choice.split).samples
    if choice.sample_ids is not None:
        samples = tuple(s for s in samples if s.sample_id in choice.sample_ids)
    samples = samples[: choice.limit]
    instances = build_instances(samples)
    if choice.protocol == "live":
        instances = replace(instances, itp=_live_itp(samples))
    points = build_points(samples, instances, choice.tasks)
    client = LLMClient(settings) if any(uses_llm(v.policy) for v in variants) else None
    policies = {v.name: v.make(settings, 0, client) for v in variants}
    return Plan(choice, source, settings, variants, policies, samples, points, client)


def resolve_variants(names: Sequence[str]) -> tuple[Variant, ...]:
    """Return the variants of the given names, each once.

    Raises:
        UnknownPolicy: naming the ones there are.
    """
    wanted: list[str] = []
    for name in names:
        wanted += FLOORS if name == "floors" else (name,)
    return tuple(_variant(name) for name in dict.fromkeys(wanted))


def resolve_tasks(text: str) -> tuple[Task, ...]:
    """Return the tasks of a comma-separated list, in the project's order.

    Raises:
        UnknownLabel: naming what is allowed.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in TASKS:
            raise UnknownLabel("task", name, TASKS)
    return tuple(task for task in TASKS if task in names)


def uses_llm(policy: str) -> bool:
    """Return whether a policy of that name asks a model server."""
    return policy in LLM_NAMES or policy.removesuffix(NO_STATE) in LLM_NAMES


def without_secrets(url: str) -> str:
    """Return a url without what may be secret in it: user, password, query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def digest(content: Any) -> str:
    """Return the SHA-256 of a JSON-able content, in hex."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def default_folder(configuration: Mapping[str, Any], root: Path = Path("runs")) -> Path:
    """Return ``runs/<date>-<hash>``; an earlier folder of the same configuration is taken up."""
    key = digest(configuration)[:8]
    earlier = sorted(root.glob(f"*-{key}"))
    return earlier[-1] if earlier else root / f"{dt.datetime.now(dt.UTC):%Y-%m-%d}-{key}"


@cache
def git_state() -> tuple[str, bool]:
    """Return the checkout's commit ("unknown" outside git) and whether it has changes."""
    here = Path(__file__).resolve().parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(here), *arguments]
        try:
            return subprocess.run(command, capture_output=True, text=True, check=False).stdout
        except OSError:
            return ""  # an installed package on a machine without git

    return git("rev-parse", "HEAD").strip() or "unknown", bool(git("status", "--porcelain"))


def prompt_hashes() -> dict[str, str]:
    """Return the SHA-256 of every file under ``prompts``, by path: texts shape answers too."""
    found: dict[str, str] = {}

    def walk(place: Traversable, path: str) -> None:
        for child in sorted(place.iterdir(), key=lambda c: c.name):
            name = f"{path}{child.name}"
            if child.is_dir():
                if child.name != "__pycache__":
                    walk(child, f"{name}/")
            elif child.name.endswith((".yaml", ".yml", ".md", ".json", ".txt")):
                found[name] = hashlib.sha256(child.read_bytes()).hexdigest()

    walk(files("prompts"), "")
    return found


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that answers and figures rest on."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found


def _variant(name: str) -> Variant:
    if name in POLICY_NAMES:
        return Variant(name, name, name.endswith(NO_STATE))
    base = name.removesuffix(NO_STATE)
    if base != name and base in POLICY_NAMES:
        return Variant(name, base, True)
    known = ", ".join(("floors", *POLICY_NAMES))
    raise UnknownPolicy(f"unknown variant {name!r}: there are {known}, each also as NAME{NO_STATE}")


def _live_itp(samples: Sequence[Sample]) -> tuple[ItpInstance, ...]:
    """Return every boundary; yes only where the therapist's row supports (live protocol)."""
    return tuple(
        i._replace(gold="yes" if i.supported else "no") for i in natural_itp_instances(samples)
    )
