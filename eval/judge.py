"""Judges for ER and VP: a model that scores an answer by our rubric, asked once an item.

Scales are the official ones (paper arXiv 2609.09657, section 4): an emotion 1 to 5; a viewpoint
0 to 2 for the pairing and 0 to 4 for the content, whose total is computed here and never taken
from the model. Judgements are kept by judge, rubric and item, so scoring again asks nobody.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from agent.llm import AnswerFault, Ask, LLMClient, LLMError, scope
from agent.llm.cache import write_private
from agent.prompts import Message, Prompt, PromptError, parse_prompt
from eval.files import cut_half_line
from eval.metrics import OK
from eval.runner import Record
from eval.store import StoreError, read_lines

JudgedTask = Literal["er", "vp"]
JUDGEMENTS: Final = "judgements.jsonl"
SCALES: Final[Mapping[JudgedTask, Mapping[str, tuple[int, int]]]] = {
    "er": {"emotion": (1, 5)},
    "vp": {"pairing": (0, 2), "viewpoint": (0, 4)},
}
"""What a judge gives, with the lowest and highest value."""


class JudgeError(RuntimeError):
    """A judge gave no usable judgement; ``status`` says why. No conversation text inside."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


class Judge(Protocol):
    """Whoever judges.

    Attributes:
        name: identifies judge and settings; judgements of two names are never mixed.
    """

    name: str

    async def judge(self, task: JudgedTask, messages: Sequence[Message]) -> Mapping[str, Any]:
        """Return the values of the task's scale.

        Raises:
            JudgeError: when there is no answer.
        """


@dataclass(frozen=True)
class Item:
    """One answer to be judged.

    Attributes:
        task: er or vp.
        speaker: whose emotion or viewpoint it is.
        gold: the annotation, as text.
        answer: the policy's answer, as text; "" for none.
    """

    task: JudgedTask
    speaker: str
    gold: str
    answer: str

    def key(self, judge: str) -> str:
        """Return the key of its judgement: judge, rubric and all that the judge sees."""
        parts = [judge, rubric(self.task).sha256, self.task, self.speaker, self.gold, self.answer]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def messages(self) -> list[Message]:
        """Return the prompt."""
        values = {"speaker": self.speaker, "gold": self.gold, "answer": self.answer}
        system, _, user = rubric(self.task).body.partition("<<user>>\n")
        for name, value in values.items():
            user = user.replace("{{" + name + "}}", value.replace("{{", "{ {"))
        return [("system", system.replace("<<system>>\n", "").strip()), ("user", user.strip())]


@dataclass(frozen=True)
class Judgement:
    """What a judge said about one item, or why it said nothing."""

    key: str
    judge: str
    status: str = OK
    scores: Mapping[str, int] | None = None


class ModelJudge:
    """A judge behind the project's one model client.

    Args:
        client: for the judge's model, with its own records (role "judge").
    """

    def __init__(self, client: LLMClient) -> None:
        self.client = client
        self.name = f"{client.model} at temperature {client.settings.temperature:g}"

    async def judge(self, task: JudgedTask, messages: Sequence[Message]) -> Mapping[str, Any]:
        """Ask the model."""
        scale = SCALES[task]
        schema = {
            "type": "object",
            "properties": {
                name: {"type": "integer", "minimum": low, "maximum": high}
                for name, (low, high) in scale.items()
            },
            "required": list(scale),
            "additionalProperties": False,
        }

        def check(answer: dict[str, Any]) -> Mapping[str, int]:
            try:
                return checked(task, answer)
            except JudgeError as error:
                raise AnswerFault(str(error)) from None

        try:
            with scope(unit="judge", cache=True):
                return await self.client.structured(
                    messages, schema, check, ask=Ask(node=f"judge_{task}", role="judge")
                )
        except LLMError as error:
            raise JudgeError(error.status, str(error)) from error


@cache
def rubric(task: JudgedTask) -> Prompt:
    """Return a task's rubric, ``prompts/judges/<task>.md``.

    Raises:
        PromptError: when it is malformed.
    """
    text = files("prompts").joinpath("judges", f"{task}.md").read_text(encoding="utf-8")
    prompt = parse_prompt(task, text)
    if prompt.inputs != {"speaker", "gold", "answer"} or "<<user>>\n" not in prompt.body:
        raise PromptError(f"the rubric {task!r} needs speaker, gold and answer in a <<user>> part")
    return prompt


def checked(task: JudgedTask, answer: Mapping[str, Any]) -> dict[str, int]:
    """Return the values of a judgement.

    Raises:
        JudgeError: naming the value that is missing, no whole number, or outside its scale.
    """
    found = {}
    for name, (low, high) in SCALES[task].items():
        value = answer.get(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise JudgeError("parse_error", f"{name} must be a whole number from {low} to {high}")
        found[name] = value
    return found


def item_of(record: Record) -> Item | None:
    """Return what is to be judged of a record; None when nothing was answered."""
    if record.status != OK or not record.answer:
        return None
    if record.task == "er":
        answer = str(record.answer["emotion"]).strip()
        if not answer:
            return None
        return Item("er", record.gold["speaker"], record.gold["emotion"], answer)
    viewpoints = record.answer["viewpoints"]
    if not viewpoints:
        return None
    speaker = str(record.gold[0][0])
    return Item("vp", speaker, viewpoint_text(record.gold), viewpoint_text(viewpoints))


def viewpoint_text(viewpoints: Iterable[Sequence[str]]) -> str:
    """Return viewpoints as lines "source about target: viewpoint"."""
    return "\n".join(f"{source} about {target}: {view}" for source, target, view in viewpoints)


async def judge_all(
    items: Iterable[Item],
    judge: Judge,
    known: Mapping[str, Judgement],
    keep: Callable[[Judgement], None],
    folder: Path | None = None,
    concurrency: int = 8,
) -> dict[str, Judgement]:
    """Judge every item that nobody has judged yet; a failure concerns its item alone.

    Args:
        items: what to judge; equal ones are asked once.
        judge: who judges.
        known: judgements so far, by key; failed ones are asked again.
        keep: told each new judgement as soon as it is there.
        folder: of judgements of all runs, or None.
        concurrency: items in flight.
    """
    found = {k: j for k, j in known.items() if j.status == OK}
    gate = asyncio.Semaphore(concurrency)

    async def one(key: str, item: Item) -> None:
        async with gate:
            made = _from_disk(folder, key, judge.name, item.task)
            if made is None:
                made = await _asked(judge, key, item)
                if folder is not None and made.status == OK:
                    write_private(_path(folder, key), json.dumps(made.scores))
        found[key] = made
        keep(made)

    wanted = {item.key(judge.name): item for item in items}
    tasks = [one(key, item) for key, item in wanted.items() if key not in found]
    await asyncio.gather(*tasks)
    return found


class JudgementFile:
    """``judgements.jsonl`` of a run folder: numbers only, appended one by one.

    Raises:
        StoreError: when it cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / JUDGEMENTS
        self.known: dict[str, Judgement] = {}
        cut_half_line(self.path)
        for line in read_lines(folder, JUDGEMENTS):
            made = Judgement(**line)
            self.known[made.key] = made

    def keep(self, made: Judgement) -> None:
        """Append a judgement; it is on the disk when this returns.

        Raises:
            StoreError: when it cannot be written.
        """
        self.known[made.key] = made
        line = {"key": made.key, "judge": made.judge, "status": made.status, "scores": made.scores}
        try:
            with self.path.open("ab") as file:
                file.write((json.dumps(line) + "\n").encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreError(f"cannot write {self.path} ({error.strerror})") from error


async def _asked(judge: Judge, key: str, item: Item) -> Judgement:
    try:
        scores = checked(item.task, await judge.judge(item.task, item.messages()))
    except JudgeError as error:
        return Judgement(key, judge.name, error.status)
    return Judgement(key, judge.name, OK, scores)


def _from_disk(folder: Path | None, key: str, judge: str, task: JudgedTask) -> Judgement | None:
    if folder is None:
        return None
    try:
        scores = json.loads(_path(folder, key).read_text(encoding="utf-8"))
        return Judgement(key, judge, OK, checked(task, scores))
    except (FileNotFoundError, ValueError, AttributeError, JudgeError):
        return None


def _path(folder: Path, key: str) -> Path:
    return folder / key[:2] / f"{key}.json"
