"""The page with places to turn to: by country where it is known, never a guessed number."""

from __future__ import annotations

import re
from html import escape as _
from typing import Final

from agent.safety.resources import (
    INTERNATIONAL,
    Resource,
    ResourceKind,
    countries,
    country_of_locale,
    lookup,
)
from ui.pages import page

KINDS: Final[tuple[tuple[ResourceKind, str], ...]] = (
    ("emergency", "Somebody is in danger now"),
    ("suicide_crisis", "Thoughts of ending your life, or more than you can bear"),
    ("domestic_violence", "Somebody hurts, threatens or controls you"),
    ("child", "For children and teenagers, and when a child is not safe"),
)
NAMES: Final = {
    "AR": "Argentina", "AT": "Austria", "AU": "Australia", "BE": "Belgium", "BR": "Brazil",
    "CA": "Canada", "CH": "Switzerland", "CL": "Chile", "CN": "China", "CO": "Colombia",
    "DE": "Germany", "DK": "Denmark", "ES": "Spain", "FI": "Finland", "FR": "France",
    "GB": "United Kingdom", "HK": "Hong Kong", "IE": "Ireland", "IL": "Israel", "IN": "India",
    "IT": "Italy", "JP": "Japan", "KR": "South Korea", "MX": "Mexico", "NL": "Netherlands",
    "NO": "Norway", "NZ": "New Zealand", "PL": "Poland", "PT": "Portugal", "SE": "Sweden",
    "SG": "Singapore", "TW": "Taiwan", "US": "United States", "ZA": "South Africa",
}  # fmt: skip
ELSEWHERE: Final = "ZZ"
"""Kept for a person who chose "somewhere else": a code of no country, so that none is guessed."""
_NUMBER: Final = re.compile(r"[0-9][0-9 ()+-]*")


def help_page(asked: str | None, setting: str | None, locale: str | None) -> str:
    """Return the page.

    Args:
        asked: the country somebody chose, "" or ``ELSEWHERE`` for "somewhere else", None when
            nobody chose.
        setting: the country of this installation, or None.
        locale: the browser's languages (``Accept-Language``), or None.
    """
    country = asked if asked is not None else setting or country_of(locale)
    if country not in countries():
        country = None
    parts = "".join(_section(country, locale, kind, title) for kind, title in KINDS)
    body = f"""<h1>Urgent help</h1>
<p class="lead">You do not have to sort this out here, or alone. Kith cannot call anybody for
you.</p>
<form method="get" action="/help" class="row"><label>Where you are
<select name="country">{_choices(country, asked is not None)}</select></label>
<button class="button quiet">Show</button></form>{parts}
<p>If it is not safe to be seen on this page, use <strong>Leave quickly</strong> or press Escape
three times. That also signs this browser out: only your own link leads back into a room. It stands
under “People and links” there; keep it, before you need it, where nobody else looks.</p>
<p><a href="/">Back</a></p>"""
    return page("Kith: urgent help", body)


def language_of(locale: str | None) -> str | None:
    """Return the language a browser asks for first, or None."""
    short = (locale or "").split(",")[0].split(";")[0].split("-")[0].strip().lower()
    return short if short.isalpha() and len(short) == 2 else None


def country_of(locale: str | None) -> str | None:
    """Return the country a browser's locale names, or None where it tells nothing."""
    # en-US is what many browsers say wherever they are: it tells nothing
    country = country_of_locale(locale)
    return None if country == "US" else country


def _choices(country: str | None, chosen: bool) -> str:
    known = sorted(countries(), key=lambda c: NAMES.get(c, c))
    none = "Somewhere else" if country or chosen else "Choose a country"
    options = [f'<option value="">{none}</option>']
    options += [
        f'<option value="{c}"{" selected" if c == country else ""}>{_(NAMES.get(c, c))}</option>'
        for c in known
    ]
    return "".join(options)


def _section(country: str | None, locale: str | None, kind: ResourceKind, title: str) -> str:
    found = lookup(country, locale, kind)
    own = [r for r in found.resources if r.kind == kind]
    items = "".join(_item(r) for r in own)
    if found.emergency_phrase and kind == "emergency":
        items = f"<li>{_(found.emergency_phrase)}</li>{items}"
    if not items:
        return ""
    return f'<section class="card"><h2>{title}</h2><ul class="help">{items}</ul></section>'


def _item(resource: Resource) -> str:
    contact = _(resource.contact)
    if _NUMBER.fullmatch(resource.contact):
        digits = re.sub(r"[^0-9+]", "", resource.contact)
        contact = f'<a class="number" href="tel:{digits}">{contact}</a>'
    elif resource.country == INTERNATIONAL:
        contact = f'<a href="https://{contact}" rel="noreferrer">{contact}</a>'
    return f"""<li><strong>{_(resource.name)}</strong>: {contact}
<span class="hint">{_(resource.hours)}; checked {resource.checked:%B %Y}</span></li>"""
