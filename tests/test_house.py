"""The house rules that a machine can check: who may import whom, and how long files get."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FORBIDDEN = {
    "agent": {"ui", "eval", "chainlit"},
    "eval": {"ui", "chainlit"},
    "ui": {"eval"},
}
MAX_LINES = 400


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imported(file: Path) -> Iterator[str]:
    for item in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(item, ast.Import):
            yield from (alias.name.split(".")[0] for alias in item.names)
        elif isinstance(item, ast.ImportFrom) and item.module and not item.level:
            yield item.module.split(".")[0]


@pytest.mark.parametrize("package", sorted(FORBIDDEN))
def test_imports_run_downwards_only(package: str) -> None:
    wrong = {
        f"{file.relative_to(ROOT)} imports {name}"
        for file in modules(package)
        for name in imported(file)
        if name in FORBIDDEN[package]
    }
    assert not wrong


def test_prompts_hold_text_only() -> None:
    kinds = {p.suffix for p in (ROOT / "prompts").rglob("*") if p.is_file()}
    code = [p.name for p in modules("prompts")]
    assert code == ["__init__.py"]
    assert kinds - {".pyc"} <= {".py", ".md", ".yaml", ".json", ".jsonl", ".txt"}


@pytest.mark.parametrize(
    ("name", "only"),
    [
        ("langchain_openai", "agent/llm/"),
        ("openai", "agent/llm/"),
        ("pydantic_settings", "agent/settings.py"),
        ("sentence_transformers", "agent/encoder.py"),
        ("chromadb", "agent/memory.py"),
    ],
)
def test_one_place_for_each_thing(name: str, only: str) -> None:
    users = {
        str(file.relative_to(ROOT))
        for package in ("agent", "eval", "ui")
        for file in modules(package)
        if name in set(imported(file))
    }
    assert all(user.startswith(only) for user in users), users


def test_files_stay_readable() -> None:
    long = {
        str(file.relative_to(ROOT)): lines
        for package in ("agent", "eval", "ui", "tests")
        for file in modules(package)
        if (lines := len(file.read_text(encoding="utf-8").splitlines())) > MAX_LINES
    }
    assert not long


def test_nothing_local_is_committed() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert not [f for f in listed if f.endswith((".sqlite", ".env", ".pkl", ".pickle", "uv.lock"))]
    assert not [f for f in listed if "train_dev" in f or "benchmark_191" in f or "vault" in f]
    hosts = ("/work/" + "main", "/work/" + "shared", "pypi" + ".org", "registry" + ".npmjs")
    for name in listed:
        file = ROOT / name
        if file.suffix in {".py", ".md", ".toml", ".sh", ".yaml", ".txt", ".cfg"} and file.exists():
            text = file.read_text(encoding="utf-8")
            assert not [host for host in hosts if host in text], name


def test_the_two_commands_of_the_readme_run_what_they_say() -> None:
    def recipe(target: str) -> str:
        done = subprocess.run(
            ["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True
        )
        return done.stdout

    assert "scripts/setup.sh" in recipe("room") and "chainlit run ui/app.py" in recipe("room")
    for part in ("scripts/setup.sh", "ruff check", "-m mypy", "-m pytest"):
        assert part in recipe("test")
