"""The one place that reads settings: environment variables and ``.env``, prefix ``KITH_``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import AliasChoices, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

EncoderName = Literal["minilm", "minilm-int8"]
PolicyChoice = Literal[
    "auto",
    "local",
    "agent",
    "agent-no-state",
    "agent-hybrid",
    "plain-window",
    "plain-history",
    "floor-always-yes",
    "floor-majority",
    "floor-random",
    "floor-last-speaker",
]
PromptFormat = Literal["auto", "json_schema", "function_calling", "json_object", "text"]

_CHAINLIT_CI_KEY = "sk-FAKE-OPENAI-API-KEY"
"""What ``chainlit run`` writes over OPENAI_API_KEY when the environment says CI=true."""


class SettingsError(ValueError):
    """One or more settings have a value that is not allowed. The message names each."""


class Settings(BaseSettings):
    """Every setting. Values come from the environment, then ``.env``, then the defaults."""

    model_config = SettingsConfigDict(
        env_prefix="KITH_",
        env_file=".env",
        env_ignore_empty=True,
        extra="ignore",
        hide_input_in_errors=True,
    )

    policy: PolicyChoice = Field(
        default="auto",
        description="Who decides in the room: auto takes agent when a key or base url is set.",
    )
    encoder: EncoderName = Field(default="minilm", description="Sentence encoder.")
    threshold: float | None = Field(
        default=None, ge=0, le=1, description="Probability at which the agent speaks."
    )
    rescue: Path | None = Field(default=None, description="RESCUE data: a .jsonl or a folder.")
    data_dir: Path = Field(default=Path("var"), description="Rooms, checkpoints and vectors.")
    cache_dir: Path = Field(
        default=Path("~/.cache/kith"), description="Downloaded data, vectors, model answers."
    )
    decision_log: Path | None = Field(
        default=None, description="Append every decision record to this file as JSON lines."
    )
    seed: int = Field(default=0, ge=0, description="Seed of everything that draws.")
    auth_secret: SecretStr | None = Field(
        default=None, description="Signs join links and cookies; made and stored when absent."
    )
    link_hours: int = Field(default=72, ge=1, le=24 * 365, description="Life of a join link.")
    retention_days: int | None = Field(
        default=None, ge=1, description="Rooms untouched for so many days are deleted."
    )
    country: str | None = Field(
        default=None, pattern="^[A-Z]{2}$", description="ISO country for urgent-help resources."
    )
    openai_api_key: SecretStr | None = Field(
        default=None, validation_alias=AliasChoices("OPENAI_API_KEY", "openai_api_key")
    )
    openai_base_url: str | None = Field(
        default=None,
        validation_alias=AliasChoices("OPENAI_BASE_URL", "openai_base_url"),
        pattern="^https?://",
    )
    model: str = Field(default="gpt-4o", min_length=1, description="Model name for the server.")
    judge_model: str | None = Field(default=None, description="Model that judges ER and VP.")
    temperature: float = Field(default=0.0, ge=0, le=2)
    max_tokens: int = Field(default=1200, ge=16, description="Longest answer, tokens.")
    timeout: float = Field(default=60.0, gt=0, description="Seconds per model call.")
    max_retries: int = Field(default=4, ge=0, le=20, description="Of transient failures.")
    concurrency: int = Field(default=8, ge=1, le=256, description="Model calls in flight.")
    rung: PromptFormat = Field(
        default="auto", description="How structured answers are asked for; auto probes."
    )
    llm_cache: bool = Field(
        default=True, description="Keep an evaluation's model answers on disk; never the room's."
    )
    llm_stream: bool = Field(
        default=True, description="Stream a reply while it is written; off shows it once checked."
    )
    safety_llm: bool = Field(
        default=True,
        description="Where a server is set, also ask the model about danger in every line.",
    )
    endpoint_concurrency: int | None = Field(
        default=None, ge=1, le=256, description="Calls in flight per server; None: as concurrency."
    )
    context_tokens: int = Field(
        default=24000, ge=256, description="Longest prompt; older lines are left out beyond it."
    )
    extra_body: dict[str, Any] = Field(
        default_factory=dict,
        description="JSON object added to every model request, e.g. to switch thinking off.",
    )
    price_input: float | None = Field(
        default=None, ge=0, description="USD per million prompt tokens; a USD budget needs it."
    )
    price_output: float | None = Field(
        default=None, ge=0, description="USD per million answer tokens; a USD budget needs it."
    )
    budget_tokens: int | None = Field(
        default=None, ge=1, description="Tokens after which no model call is made any more."
    )
    budget_usd: float | None = Field(
        default=None, gt=0, description="US dollars after which no model call is made any more."
    )

    @field_validator("openai_api_key", mode="after")
    @classmethod
    def _no_made_up_key(cls, key: SecretStr | None) -> SecretStr | None:
        made_up = key is not None and key.get_secret_value() == _CHAINLIT_CI_KEY
        return None if made_up else key

    @property
    def has_llm(self) -> bool:
        """Whether a model server is configured."""
        return self.openai_api_key is not None or self.openai_base_url is not None

    @property
    def cache_path(self) -> Path:
        """The cache folder, with ~ expanded."""
        return self.cache_dir.expanduser()


def _env_name(field: str) -> str:
    if field in ("openai_api_key", "openai_base_url", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        return field.upper()
    return f"KITH_{field.upper()}"


def _allowed(field: str, error: Any) -> str:
    info = Settings.model_fields.get(field.lower())
    literals = get_args(info.annotation) if info else ()
    if literals and all(isinstance(v, str) for v in literals):
        return "allowed: " + ", ".join(literals)
    return str(error["msg"])


def load_settings(**overrides: Any) -> Settings:
    """Read the settings.

    Args:
        overrides: values that win over the environment, by field name.

    Raises:
        SettingsError: naming each wrong setting, its value (never a secret's) and what is allowed.
    """
    try:
        return Settings(**overrides)
    except ValidationError as error:
        lines = []
        for item in error.errors(include_input=True):
            field = str(item["loc"][0]) if item["loc"] else "?"
            secret = "key" in field.lower() or "secret" in field.lower()
            value = "(hidden)" if secret else repr(item.get("input"))
            lines.append(f"{_env_name(field)}={value}: {_allowed(field, item)}")
        raise SettingsError("wrong settings:\n  " + "\n  ".join(lines)) from None
