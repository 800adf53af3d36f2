"""Help by country."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from agent.safety import KINDS, SafetyDataError, resources
from agent.safety.data_files import load_yaml


def entry() -> dict[str, Any]:
    return copy.deepcopy(load_yaml("resources.yaml")["resources"][0])


def test_the_table_covers_countries_and_the_world() -> None:
    assert len(resources.countries()) >= 25
    for country in resources.countries():
        kinds = {r.kind for r in resources.load() if r.country == country}
        assert {"suicide_crisis", "domestic_violence", "emergency"} <= kinds, country
    everywhere = {r.kind for r in resources.load() if r.country == resources.INTERNATIONAL}
    assert {"suicide_crisis", "domestic_violence", "child"} <= everywhere


@pytest.mark.parametrize("field", ["source", "checked", "hours", "contact", "verified"])
def test_an_entry_without_source_or_date_is_refused(field: str) -> None:
    broken = entry()
    del broken[field]
    with pytest.raises(SafetyDataError, match=f"entry 2.*{field}"):
        resources.parse({"resources": [entry(), broken]})


def test_an_empty_source_is_refused() -> None:
    with pytest.raises(SafetyDataError, match="source"):
        resources.parse({"resources": [entry() | {"source": ""}]})


@pytest.mark.parametrize("country", [None, "", "ZZ", "XX"])
def test_an_unknown_country_gets_the_directory_and_no_number(country: str | None) -> None:
    for kind in ("suicide_crisis", "domestic_violence", "child", "emergency"):
        found = resources.lookup(country, "en", kind)  # type: ignore[arg-type]
        assert all(r.country == resources.INTERNATIONAL for r in found.resources)
        assert found.emergency_phrase
        shown = found.model_dump_json()
        assert "988" not in shown and "911" not in shown


def test_the_country_decides_and_the_language_orders() -> None:
    found = resources.lookup("be", "nl-BE", "suicide_crisis")
    assert {r.country for r in found.resources} == {"BE"}
    assert "nl" in found.resources[0].languages


def test_the_phrase_is_in_the_language_asked_for() -> None:
    assert resources.lookup(None, "es").emergency_phrase != resources.lookup(None).emergency_phrase


def test_the_country_comes_from_the_browser_locale() -> None:
    assert resources.country_of_locale("fr-CA,fr;q=0.9") == "CA"
    assert resources.country_of_locale("en") is None
    assert resources.country_of_locale(None) is None


def test_every_kind_of_concern_has_its_help() -> None:
    assert {k: resources.kinds_for(k) for k in KINDS}["coercive_control"] == ("domestic_violence",)
