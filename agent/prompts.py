"""Prompt files: front matter with id, version and inputs, then one or two messages.

A file reads::

    ---
    id: reply
    version: 1
    inputs: [scenario, lines]
    ---
    <<system>>
    ...{{scenario}}...
    <<user>>
    ...{{lines}}...

A file without ``<<role>>`` lines is a fragment: ``fragment`` renders it to text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final, Literal

import yaml

Role = Literal["system", "user", "assistant"]
Message = tuple[Role, str]
"""A message for a model: its role and its text."""

_FOLDER: Final = "llm"
_VARIABLE: Final = re.compile(r"\{\{(\w+)\}\}")
_ROLE: Final = re.compile(r"^<<(system|user)>>[ \t]*\n", re.MULTILINE)
_NAME: Final = re.compile(r"^[a-z][a-z0-9_]*$")


class PromptError(ValueError):
    """A prompt file is malformed, or was given too few or too many variables."""


@dataclass(frozen=True)
class Prompt:
    """One prompt file.

    Attributes:
        id: its name.
        version: raised by hand with every change that is meant to matter.
        inputs: the variables its text uses.
        body: the text after the front matter.
        sha256: of the whole file.
    """

    id: str
    version: int
    inputs: frozenset[str]
    body: str
    sha256: str

    @property
    def tag(self) -> str:
        """Id, version and the start of the hash, for version strings."""
        return f"{self.id}.{self.version}-{self.sha256[:8]}"


def parse_prompt(name: str, text: str) -> Prompt:
    """Parse a prompt file's text.

    Raises:
        PromptError: for missing front matter, and for a variable that is declared but not used or
            used but not declared.
    """
    parts = text.split("---\n", 2)
    if len(parts) != 3 or parts[0]:
        raise PromptError(f"prompt {name!r} has no front matter")
    try:
        head = yaml.safe_load(parts[1])
        prompt = Prompt(
            id=str(head["id"]),
            version=int(head["version"]),
            inputs=frozenset(str(i) for i in head["inputs"]),
            body=parts[2],
            sha256=hashlib.sha256(text.encode("utf-8")).hexdigest(),
        )
    except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise PromptError(f"prompt {name!r}: front matter needs id, version, inputs") from error
    if prompt.id != name:
        raise PromptError(f"prompt {name!r} calls itself {prompt.id!r}")
    used = frozenset(_VARIABLE.findall(prompt.body))
    if used != prompt.inputs:
        odd = ", ".join(sorted(used ^ prompt.inputs))
        raise PromptError(f"prompt {name!r}: declared and used variables differ: {odd}")
    return prompt


@cache
def load_prompt(name: str) -> Prompt:
    """Return the prompt of that name.

    Raises:
        PromptError: when there is none, or it is malformed.
    """
    place = files("prompts").joinpath(_FOLDER, f"{name}.md")
    if not _NAME.match(name) or not place.is_file():
        raise PromptError(f"there is no prompt {name!r}")
    return parse_prompt(name, place.read_text(encoding="utf-8"))


def prompt_names() -> tuple[str, ...]:
    """Return the names of all prompts."""
    folder = files("prompts").joinpath(_FOLDER)
    return tuple(sorted(p.name[:-3] for p in folder.iterdir() if p.name.endswith(".md")))


def prompt_hashes() -> dict[str, str]:
    """Return the sha256 of every prompt file, by name: for a run's manifest."""
    return {name: load_prompt(name).sha256 for name in prompt_names()}


def fragment(name: str, variables: Mapping[str, str] | None = None) -> str:
    """Render a prompt file to text.

    Raises:
        PromptError: naming the variables that are missing or not used.
    """
    prompt = load_prompt(name)
    return _fill(prompt, prompt.body, variables or {}).strip()


def render(name: str, variables: Mapping[str, str]) -> list[Message]:
    """Render a prompt file to messages.

    Raises:
        PromptError: naming the variables that are missing or not used, or when the file holds no
            ``<<role>>`` line.
    """
    prompt = load_prompt(name)
    pieces = _ROLE.split(prompt.body)
    if len(pieces) < 3 or pieces[0].strip():
        raise PromptError(f"prompt {name!r} has no <<system>> or <<user>> line at its top")
    # filled after the split: a value may never begin a message of its own
    _check(prompt, variables)
    messages: list[Message] = []
    for role, text in zip(pieces[1::2], pieces[2::2], strict=True):
        filled = _fill(prompt, text, variables).strip()
        messages.append(("system" if role == "system" else "user", filled))
    return messages


def _check(prompt: Prompt, variables: Mapping[str, str]) -> None:
    missing, unused = prompt.inputs - set(variables), set(variables) - prompt.inputs
    if missing or unused:
        raise PromptError(
            f"prompt {prompt.id!r}: missing variables {sorted(missing)}, unused {sorted(unused)}"
        )


def _fill(prompt: Prompt, text: str, variables: Mapping[str, str]) -> str:
    _check(prompt, variables)
    filled = _VARIABLE.sub(lambda m: variables[m.group(1)], text)
    return re.sub(r"\n{3,}", "\n\n", filled)
