"""Settings: one class, clear refusals, secrets hidden, and an example file that is complete."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

from agent.settings import Settings, SettingsError, load_settings

EXAMPLE = Path(__file__).parents[1] / ".env.example"


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def test_no_setting_is_needed_and_no_server_is_assumed() -> None:
    settings = load_settings()
    assert settings.policy == "auto" and not settings.has_llm


def test_a_key_or_a_base_url_is_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:11434/v1")
    assert load_settings().has_llm


def test_the_key_that_chainlit_makes_up_in_ci_mode_is_no_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cli = importlib.import_module("chainlit.cli")

    made_up = re.search(r'"OPENAI_API_KEY"\] = "([^"]+)"', inspect.getsource(cli))
    assert made_up is not None, "chainlit makes no key up any more: drop the rule"
    monkeypatch.setenv("OPENAI_API_KEY", made_up[1])
    assert not load_settings().has_llm


@pytest.mark.parametrize(
    ("name", "value", "parts"),
    [
        ("KITH_POLICY", "psychic", ("KITH_POLICY", "'psychic'", "auto, local")),
        ("KITH_THRESHOLD", "1.5", ("KITH_THRESHOLD", "'1.5'", "less than or equal to 1")),
        ("KITH_CONCURRENCY", "many", ("KITH_CONCURRENCY", "'many'", "integer")),
        ("KITH_COUNTRY", "Germany", ("KITH_COUNTRY", "'Germany'", "[A-Z]{2}")),
        ("OPENAI_BASE_URL", "localhost", ("OPENAI_BASE_URL", "'localhost'", "https?")),
        ("KITH_RUNG", "xml", ("KITH_RUNG", "'xml'", "json_schema")),
    ],
)
def test_a_wrong_value_names_the_setting_the_value_and_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, parts: tuple[str, ...]
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as caught:
        load_settings()
    for part in parts:
        assert part in str(caught.value)


def test_a_secret_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("KITH_TEMPERATURE", "hot")
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert "sk-very-secret" not in str(caught.value)
    monkeypatch.delenv("KITH_TEMPERATURE")
    assert "sk-very-secret" not in repr(load_settings())


def test_the_example_file_lists_every_setting_and_reads_as_the_defaults(tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    named = set(re.findall(r"^([A-Z_]+)=", text, flags=re.M))
    expected = {
        name.upper() if name.startswith("openai_") else f"KITH_{name.upper()}"
        for name in Settings.model_fields
    }
    assert named == expected
    (tmp_path / ".env").write_text(text, encoding="utf-8")
    assert load_settings() == Settings(_env_file=None)  # type: ignore[call-arg]
