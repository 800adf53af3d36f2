"""Help by country, language and kind (safety.md S27).

An unknown country never falls back to another country's number: it gets the international
directories and a sentence about the local emergency number.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.safety.data_files import SafetyDataError, load_yaml
from agent.safety.types import Kind

ResourceKind = Literal["suicide_crisis", "domestic_violence", "child", "emergency"]
INTERNATIONAL = "international"
_FILE = "resources.yaml"
_FOR: dict[Kind, tuple[ResourceKind, ...]] = {
    "self_harm": ("suicide_crisis", "emergency"),
    "violence": ("domestic_violence", "emergency"),
    "coercive_control": ("domestic_violence",),
    "child_abuse": ("child", "emergency"),
    "threat": ("emergency",),
    "medical": ("emergency",),
    "dependency": (),
}


class Resource(BaseModel):
    """One place to get help.

    Attributes:
        country: ISO 3166-1 alpha-2 code, or ``international``.
        languages: Languages spoken there, as ISO 639-1 codes.
        kind: What it is for.
        name: The service's name.
        contact: Number or address.
        hours: When it answers.
        source: The organisation behind it and its public page.
        checked: When the entry was last reviewed by its author.
        verified: Whether somebody has confirmed it with the service since it was written.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    country: str = Field(pattern=r"^([A-Z]{2}|international)$")
    languages: tuple[str, ...] = Field(min_length=1)
    kind: ResourceKind
    name: str = Field(min_length=2)
    contact: str = Field(min_length=2)
    hours: str = Field(min_length=2)
    source: str = Field(min_length=8)
    checked: dt.date
    verified: bool


class Help(BaseModel):
    """What to show: resources, and the sentence for a place whose number is not known."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    country: str | None
    resources: tuple[Resource, ...]
    emergency_phrase: str | None


def parse(raw: object, where: str = _FILE) -> tuple[Resource, ...]:
    """Return the entries of a resource table.

    Args:
        raw: The table as read from YAML.
        where: Its name, for errors.

    Raises:
        SafetyDataError: If an entry lacks a field, a source or a date, or has an unknown one.
    """
    if not isinstance(raw, dict) or not isinstance(raw.get("resources"), list):
        raise SafetyDataError(f"{where}: a list called 'resources' is missing")
    out = []
    for row, entry in enumerate(raw["resources"], start=1):
        try:
            out.append(Resource.model_validate(entry))
        except ValidationError as error:
            fields = sorted({".".join(map(str, e["loc"])) or "entry" for e in error.errors()})
            raise SafetyDataError(f"{where}, entry {row}: wrong or missing {fields!r}") from error
    return tuple(out)


@lru_cache(maxsize=1)
def load() -> tuple[Resource, ...]:
    """Return every resource.

    Raises:
        SafetyDataError: If the table is missing or an entry is incomplete.
    """
    return parse(load_yaml(_FILE))


@lru_cache(maxsize=1)
def _phrases() -> dict[str, str]:
    phrases: dict[str, str] = load_yaml(_FILE)["emergency_phrase"]
    return phrases


def countries() -> tuple[str, ...]:
    """Return the country codes in the table, sorted."""
    return tuple(sorted({r.country for r in load()} - {INTERNATIONAL}))


def _by_language(found: Sequence[Resource], language: str | None) -> tuple[Resource, ...]:
    if language is None:
        return tuple(found)
    short = language.split("-")[0].split("_")[0].lower()
    return tuple(sorted(found, key=lambda r: short not in r.languages))


def lookup(
    country: str | None, language: str | None = None, kind: ResourceKind = "suicide_crisis"
) -> Help:
    """Return the help for a place.

    Args:
        country: ISO code, or None when it is not known.
        language: ISO code or locale such as ``fr-CA``; services in it come first.
        kind: What the help is for.
    """
    code = country.strip().upper() if country else None
    table = load()
    here = [r for r in table if r.country == code and r.kind == kind]
    if here:
        return Help(country=code, resources=_by_language(here, language), emergency_phrase=None)
    everywhere = [r for r in table if r.country == INTERNATIONAL and r.kind == kind]
    emergency = [r for r in table if r.country == code and r.kind == "emergency"]
    phrases = _phrases()
    short = (language or "en").split("-")[0].split("_")[0].lower()
    return Help(
        country=code,
        resources=_by_language([*everywhere, *emergency], language),
        emergency_phrase=None if emergency else phrases.get(short, phrases["en"]),
    )


def kinds_for(kind: Kind) -> tuple[ResourceKind, ...]:
    """Return which help belongs to a kind of concern, the most fitting first."""
    return _FOR[kind]


def country_of_locale(locale: str | None) -> str | None:
    """Return the country part of a browser locale such as ``fr-CA``, or None without one."""
    if not locale:
        return None
    parts = locale.split(",")[0].split(";")[0].replace("_", "-").split("-")
    region = next((p for p in parts[1:] if len(p) == 2 and p.isalpha()), None)
    return region.upper() if region else None
