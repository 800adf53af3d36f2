"""The plain pages around the room: start, consent, people, leaving, help. HTML, no scripts needed.

Every value that came from a person is escaped by ``_``.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape as _
from typing import Final

from ui.inputs import AGES, ROLES
from ui.links import qr_svg
from ui.playback import Script
from ui.records import Person
from ui.room import MOST_PEOPLE, Room

NEUTRAL_PAGE: Final = "https://www.wikipedia.org/"
"""Where the quick exit leads: a page that tells nothing about where somebody was."""

_SHELL: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>{title}</title>
<link rel="icon" href="/favicon">
<link rel="stylesheet" href="/public/pages.css">
<script src="/public/exit.js" defer></script>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header><a class="brand" href="/"><img src="/public/kith.svg" alt="" width="32" height="32">Kith</a>
<nav aria-label="Help and exit"><a href="/help">Urgent help</a>
<a class="exit" data-exit href="{neutral}">Leave quickly</a></nav></header>
<main id="main">{body}</main>
</body></html>
"""


def page(title: str, body: str) -> str:
    """Return a whole page around a body of safe HTML."""
    return _SHELL.format(title=_(title), body=body, neutral=NEUTRAL_PAGE)


def _error(text: str) -> str:
    return f'<p class="error" role="alert">{_(text)}</p>' if text else ""


def _options(values: Iterable[str], chosen: str = "") -> str:
    return "".join(
        f'<option value="{_(v)}"{" selected" if v == chosen else ""}>{_(v.capitalize())}</option>'
        for v in values
    )


def _name_field(field: str, label: str, hint: str = "") -> str:
    note = f'<span class="hint">{_(hint)}</span>' if hint else ""
    return (
        f"<label>{_(label)}{note}"
        f'<input name="{field}" required maxlength="80" autocomplete="off" dir="auto"></label>'
    )


def _role_fields(scenario: str, role: str = "role", age: str = "age") -> str:
    if scenario == "couple":
        return f'<input type="hidden" name="{role}" value="partner">'
    return (
        f'<label>Role<select name="{role}">{_options(ROLES["family"])}</select></label>'
        f'<label>Age group<select name="{age}">{_options(AGES)}</select></label>'
    )


def landing(error: str = "") -> str:
    """Return the first page: what this is, and the ways in."""
    body = f"""
<section class="hero"><h1>A quiet third voice, for the two or more of you</h1>
<p class="lead">Kith sits in while you talk. It listens for what happens <em>between</em> people,
stays silent most of the time, and speaks when it may help you hear each other.</p>
<p class="plain">Kith is an AI. It is not a therapist, and it can be wrong. It is not for
emergencies: <a href="/help">urgent help is here</a>.</p></section>
{_error(error)}
<div class="ways">
{_way("couple", "We are a couple", "Two partners, side by side or far apart.")}
{_way("family", "We are a family", f"Up to {MOST_PEOPLE} of you: parents, children, siblings.")}
<section class="card"><h2>Just show me</h2>
<p>Watch one of the written conversations play, with Kith listening live.</p>
<a class="button quiet" href="/demo">Choose a conversation</a></section>
</div>"""
    return page("Kith: a room to talk in", body)


def _way(scenario: str, title: str, text: str) -> str:
    return f"""<section class="card"><h2>{title}</h2><p>{text}</p>
<a class="button" href="/start/{scenario}">Each on our own device</a>
<a class="button quiet" href="/start/{scenario}?together=1">We share this screen</a></section>"""


def start(scenario: str, together: bool, error: str = "") -> str:
    """Return the form that makes a room."""
    fields = _name_field("name", "Your first name", "as the others should see it")
    fields += _role_fields(scenario)
    if together:
        fields += _name_field("name2", "First name of the other", "more people can be added later")
        fields += _role_fields(scenario, "role2", "age2")
    said = "this screen" if together else "your own device"
    body = f"""<h1>A room for {"the two of you" if scenario == "couple" else "your family"}</h1>
<p>You talk on {said}. Next you read, in short, how the room works.</p>{_error(error)}
<form method="post" action="/start/{scenario}{"?together=1" if together else ""}">
{fields}<button class="button">Go on</button></form>
"""
    return page("Kith: make a room", body)


def consent(name: str, action: str, *, together: bool, error: str = "") -> str:
    """Return what somebody agrees to before anything of theirs is processed."""
    whisper = (
        "<li><strong>You share this screen.</strong> Everybody sees everything here.</li>"
        if together
        else """<li><strong>Who sees what.</strong> Everybody in the room sees what you write. With
“Only to Kith” you whisper: the others see neither the words nor that you whispered. Kith does not
pass a whisper on.</li>
<li><strong>Before you and after you.</strong> You will see everything that was said openly before
you came in, and whoever comes in after you sees what you say. When a person under 18 comes in,
those who are there are told.</li>"""
    )
    link = "the link of this room" if together else "your own link"
    agree = (
        "We agree: we talk here under these terms."
        if together
        else "I agree: I talk here under these terms, and I may stop at any time."
    )
    body = f"""<h1>Before you start{"" if together else f", {_(name)}"}</h1>
<ul class="consent">
<li><strong>What this is.</strong> Kith is an AI that reads what you write, guesses how you feel and
how you stand to each other, and sometimes speaks. It is not therapy, it gives no diagnosis, and
its guesses are often wrong. You can mark them as wrong.</li>
{whisper}
<li><strong>What is stored.</strong> Your words, Kith’s guesses and what it decided stay on the
computer that runs this room, until somebody deletes them. You can erase what you said, and take a
copy along. Where a language model service is switched on, it receives what you write.</li>
<li><strong>Limits.</strong> Whoever runs that computer could read what is stored. Kith cannot call
for help. In an emergency use your local emergency number: <a href="/help">urgent help</a>.</li>
<li><strong>Your choice.</strong> You can stop, pause Kith, or leave at any time. “Leave quickly”,
or pressing Escape three times, takes you to another page at once.</li>
<li><strong>Coming back.</strong> Leaving, quickly or not, signs this browser out. Only {link} leads
back in: it stands in the room under “People and links”. Keep it before you need it, where nobody
else looks.</li>
</ul>{_error(error)}
<form method="post" action="{_(action)}"><label class="check"><input type="checkbox" name="agree"
value="yes" required> {agree}</label>
<button class="button">Enter the room</button></form>"""
    return page("Kith: before you start", body)


def people(
    room: Room, me: str, links: dict[str, str], *, local: bool, days: int, error: str = ""
) -> str:
    """Return who is in the room, with a link for each who is to come and one for who looks.

    Args:
        room: the room.
        me: id of who looks.
        links: person id to join link.
        local: whether the links only work on this computer.
        days: how long the link that leads back works.
        error: a sentence about the form, or "".
    """
    rows = "".join(_person(p, me, links.get(p.id, ""), room, days) for p in room.people.values())
    note = (
        '<p class="note">This address only works on this computer. To let other devices in, start '
        "the room with <code>--host 0.0.0.0</code> and open it by this computer’s own address.</p>"
        if local and not room.one_browser
        else ""
    )
    where = "" if not room.one_browser else "<p>You all share this screen.</p>"
    form = "" if room.info.mode == "demo" else _invite_form(room)
    body = f"""<h1>People</h1>{where}{note}{_error(error)}
<ul class="people">{rows}</ul>{form}<p><a class="button quiet" href="/">Back to the room</a></p>"""
    return page("Kith: people", body)


def _person(person: Person, me: str, link: str, room: Room, days: int) -> str:
    state = "you" if person.id == me and not room.one_browser else ""
    if person.gone:
        state = "left"
    elif person.consented is None:
        state = "has not come in yet"
    detail = ", ".join(x for x in (person.role, person.age, state) if x)
    invite = ""
    if link:
        title, use = _use(person, me, room, days)
        invite = f"""<details{"" if person.consented else " open"}><summary>{title}</summary>
<p>{use}</p><input class="link" readonly value="{_(link)}" aria-label="{title}">
<div class="qr" role="img" aria-label="Code: {title}">{qr_svg(link)}</div></details>"""
    return f"""<li><span class="dot c{person.colour}" aria-hidden="true"></span>
<strong dir="auto">{_(person.name)}</strong> <span class="hint">{_(detail)}</span>{invite}</li>"""


def _use(person: Person, me: str, room: Room, days: int) -> tuple[str, str]:
    """Return what a link is called and how to use it, as safe HTML."""
    name = _(person.name)
    if room.one_browser:
        use = (
            f"It leads all of you back to this room, for {days} days. Whoever opens it reads "
            "everything here: keep it where only you look."
        )
        return "Link back to this room", use
    if person.id == me:
        use = (
            f"It is the only way back after you leave, and lets you use another device, for {days} "
            "days. Keep it to yourself, where nobody else looks: whoever opens it is you to the "
            "room and reads your whispers."
        )
        return f"Your own link, {name}", use
    return f"Link for {name}", f"Only {name} should use it, once. Send it, or let them scan it."


def _invite_form(room: Room) -> str:
    if len([p for p in room.people.values() if not p.gone]) >= MOST_PEOPLE:
        return f"<p>The room is full: {MOST_PEOPLE} people.</p>"
    word = "Add" if room.one_browser else "Make a link"
    return f"""<h2>{"Add somebody" if room.one_browser else "Invite somebody"}</h2>
<form method="post" action="/people">{_name_field("name", "First name")}
{_role_fields(room.scenario)}<button class="button">{word}</button></form>"""


def leave(room: Room, error: str = "") -> str:
    """Return the page for leaving: what to take along and what to leave behind."""
    everything = (
        """<form method="post" action="/leave"><input type="hidden" name="how" value="delete">
<button class="button danger">Delete the whole room and leave</button></form>"""
        if room.one_browser
        else """<form method="post" action="/leave"><input type="hidden" name="how" value="erase">
<button class="button danger">Erase what I said and leave</button></form>"""
    )
    body = f"""<h1>Leaving</h1>{_error(error)}
<section class="card"><h2>Take a copy along</h2>
<p>It holds what you may see, whispers of your own included.</p>
<a class="button quiet" href="/export/md" download>To read (Markdown)</a>
<a class="button quiet" href="/export/jsonl" download>For research (RESCUE rows)</a></section>
<section class="card"><h2>Leave the room</h2>{_way_back(room)}
<form method="post" action="/leave"><input type="hidden" name="how" value="leave">
<button class="button">Leave, and keep what was said</button></form>{everything}</section>
<p><a href="/">Back to the room</a></p>"""
    return page("Kith: leaving", body)


def _way_back(room: Room) -> str:
    if room.info.mode == "demo":
        return ""
    link = "the link of this room" if room.one_browser else "your own link"
    return f"""<p>Only {link} leads back in, and it is not shown after you left. It stands under
<a href="/people">People and links</a>: keep it first, if you may want to come back.</p>"""


def demos(scripts: Iterable[Script], error: str = "") -> str:
    """Return the demo conversations to choose from."""
    known = list(scripts)
    parts = []
    for scenario, title in (("couple", "Couples"), ("family", "Families")):
        items = "".join(_demo(s) for s in known if s.scenario == scenario)
        parts.append(f'<h2>{title}</h2><ul class="demos">{items}</ul>')
    body = f"""<h1>Demo conversations</h1>
<p>The people are invented and their lines are written. Kith is live: it reads along and takes the
helper’s chair.</p>{_error(error)}{"".join(parts)}"""
    return page("Kith: demo conversations", body)


def _demo(script: Script) -> str:
    return f"""<li class="card"><h3>{_(script.title)}</h3>
<p class="hint">{_(", ".join(script.people))}</p><p>{_(script.summary)}</p>
<form method="post" action="/demo"><input type="hidden" name="id" value="{_(script.id)}">
<button class="button quiet">Play it</button></form></li>"""


def refused(title: str, text: str) -> str:
    """Return a page that says why not, and what to do."""
    body = f"""<h1>{_(title)}</h1><p class="lead">{_(text)}</p>
<p><a class="button quiet" href="/">To the start</a></p>"""
    return page(f"Kith: {title}", body)
