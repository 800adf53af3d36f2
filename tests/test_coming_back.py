"""Leaving and coming back, who reads what was said before, and a country that is set back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from httpx import AsyncClient

from tests.rooms import Steady, Tab, companion_of, desk_for, room_of
from tests.test_ui import browser
from ui.desk import Desk
from ui.inputs import YOUNG_CAME, Refused
from ui.links import LinkRefused, Links, Member
from ui.room import Room

SAID = "The heron nests at midnight."


async def open_room(desk: Desk, *people: AsyncClient, scenario: str = "couple") -> Room:
    """The first makes a room, the others come in with links; Ana, Ben and so on."""
    role = "partner" if scenario == "couple" else "other"
    names = iter(("Ana", "Ben", "Cleo"))
    first, *others = people
    data = {"role": role, "age": "adult"}
    await first.post(f"/start/{scenario}", data={"name": next(names), **data})
    await first.post("/consent", data={"agree": "yes"})
    for other in others:
        name = next(names)
        page = await first.post("/people", data={"name": name, **data})
        link = links_on(page.text)[-1]
        await other.post(link, data={"agree": "yes"})
    return next(iter(desk.hall.rooms.values()))


def links_on(page: str) -> list[str]:
    return re.findall(r'value="([^"]*/join/[^"]*)"', page)


async def started(folder: Path) -> Desk:
    desk = desk_for(folder, Steady())
    await desk.engine.start()
    return desk


@pytest.mark.parametrize("how", ["exit", "leave", "erase"])
async def test_one_comes_back_with_the_own_link_alone_and_is_shown_nothing_before(
    tmp_path, how: str
) -> None:
    desk = await started(tmp_path)
    async with browser(desk) as ana, browser(desk) as ben:
        room = await open_room(desk, ana, ben)
        _, person = room.people
        await room.say(person, SAID)
        (own,) = links_on((await ben.get("/people")).text)
        if how == "exit":
            await ben.post("/exit")
        else:
            await ben.post("/leave", data={"how": how})
        for path in ("/", "/people", "/leave", "/consent", "/export/md", "/export/jsonl"):
            page = (await ben.get(path)).text
            assert "A quiet third voice" in page and SAID not in page, path
        assert person not in "".join(links_on((await ana.get("/people")).text))
        page = await ben.get(own)
        if how != "exit":
            assert "Before you start, Ben" in page.text and SAID not in page.text
            assert "A quiet third voice" in (await ben.get("/")).text, "nothing before consent"
            page = await ben.post(own, data={"agree": "yes"})
        assert page.text == "the chat" and room.names() == ["Ana", "Ben"]
        copy = (await ben.get("/export/md")).text
        assert (SAID in copy) is (how != "erase")
        await room.say(person, "I am back.")
        assert room.lines[-1].speaker == "Ben" and len(room.people) == 2
    await desk.close()


async def test_people_are_told_beforehand_to_keep_their_own_link(tmp_path) -> None:
    desk = await started(tmp_path)
    async with browser(desk) as ana:
        await ana.post("/start/couple", data={"name": "Ana", "role": "partner"})
        consent = (await ana.get("/consent")).text
        await ana.post("/consent", data={"agree": "yes"})
        for page in (consent, (await ana.get("/help")).text, (await ana.get("/leave")).text):
            text = " ".join(page.split())
            assert "nly your own link leads back in" in text and "People and links" in text
        assert "30 days" in (await ana.get("/people")).text
        room = next(iter(desk.hall.rooms.values()))
        await room.goodbye(next(iter(room.people)))
        with pytest.raises(Refused, match="Your own link leads back in") as refusal:
            await room.say(next(iter(room.people)), SAID)
        assert "a new link to come back" not in str(refusal.value)
    await desk.close()


def test_the_own_link_lasts_as_long_as_a_cookie() -> None:
    short, member = Links("secret", -1), Member("room", "person")
    with pytest.raises(LinkRefused, match="who sent it"):
        short.accept(short.invite(member))
    assert short.accept(short.own(member)) == member
    assert short.own_hours == 30 * 24 and Links("secret", 24 * 40).own_hours == 24 * 40


async def test_a_shared_screen_has_a_link_that_leads_all_back(tmp_path) -> None:
    desk = await started(tmp_path)
    both = {"name": "Ana", "name2": "Ben", "role": "partner", "role2": "partner"}
    async with browser(desk) as one:
        page = await one.post("/start/couple?together=1", data=both)
        assert "the link of this room" in " ".join(page.text.split())
        (early,) = links_on((await one.get("/people")).text)
        await one.post("/exit")
        assert "We agree" in (await one.get(early)).text
        assert (await one.post(early, data={"agree": "yes"})).text == "the chat"
        room = next(iter(desk.hall.rooms.values()))
        assert room.names() == ["Ana", "Ben"]
        (own,) = links_on((await one.get("/people")).text)
        await one.post("/leave", data={"how": "leave"})
        assert "A quiet third voice" in (await one.get("/")).text
        assert (await one.get(own)).text == "the chat"
    await desk.close()


async def test_a_tab_of_somebody_who_left_gets_and_does_nothing_more(tmp_path) -> None:
    desk = await started(tmp_path)
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await room.goodbye(ben.person)
    assert ben.events[-1].kind == "left"
    before = list(ben.events)
    await room.say(ana.person, SAID)
    await companion_of(room).idle()
    assert ben.events == before
    for what in ("panel", "speak_now", "why"):
        with pytest.raises(Refused, match="not in this room any more"):
            await desk.run(room, ben.person, {"what": what})
    await desk.close()


async def test_a_newcomer_is_told_that_what_was_said_is_there_to_read(tmp_path) -> None:
    desk = await started(tmp_path)
    async with browser(desk) as ana, browser(desk) as ben:
        await open_room(desk, ana)
        page = await ana.post("/people", data={"name": "Ben", "role": "partner"})
        text = " ".join((await ben.get(links_on(page.text)[-1])).text.split())
        assert "You will see everything that was said openly before you came in" in text
        assert "whoever comes in after you sees what you say" in text
    await desk.close()


@pytest.mark.parametrize("age", ["teen", "child", "adult"])
async def test_s23_those_who_are_there_are_told_once_when_a_young_person_joins(
    tmp_path, age: str
) -> None:
    desk = await started(tmp_path)
    room, (ana, ben) = await room_of(desk, "Ana", "Ben", scenario="family")
    mia = await room.add_person("Mia", "son or daughter", age)
    assert not ana.notices, "nobody has come in yet"
    late = Tab(mia.id)
    room.join(late)
    for _ in range(3):
        await room.consent(mia.id)
    told = [] if age == "adult" else [YOUNG_CAME]
    assert ana.notices == ben.notices == told and not late.notices
    assert all(e.on for e in ana.events if e.kind == "notice"), "it stays until it is read"
    await desk.close()


async def test_s27_a_country_can_be_set_back_to_somewhere_else(tmp_path) -> None:
    desk = desk_for(tmp_path, Steady(), country="GB")
    await desk.engine.start()
    german = {"accept-language": "de-DE"}
    async with browser(desk) as ana, browser(desk) as nobody:
        room = await open_room(desk, ana)
        (person,) = room.people
        page = (await ana.get("/help?country=FR", headers=german)).text
        assert '<option value="FR" selected>' in page
        page = (await ana.get("/help", headers=german)).text
        assert '<option value="FR" selected>' in page and "3114" in page, "shown when reopened"
        page = (await ana.get("/help?country=", headers=german)).text
        assert "selected" not in page and "Somewhere else" in page
        await ana.get("/", headers=german)
        page = (await ana.get("/help", headers=german)).text
        assert "selected" not in page and "Somewhere else" in page, "no guess takes its place"
        await room.say(person, "I want to die", private=True)
        await companion_of(room).idle()
        said = room.lines[-1].text
        assert "3114" not in said and "116 123" not in said and "112" not in said
        assert "findahelpline.com" in said
        await ana.get("/help?country=IE", headers=german)
        assert '<option value="IE" selected>' in (await ana.get("/help", headers=german)).text
        assert '<option value="GB" selected>' in (await nobody.get("/help")).text
    await desk.close()


async def test_s27_nothing_chosen_is_not_a_choice(tmp_path) -> None:
    desk = await started(tmp_path)
    async with browser(desk) as ana:
        room = await open_room(desk, ana)
        page = (await ana.get("/help")).text
        assert "Choose a country" in page
        await ana.get("/help?country=")
        assert companion_of(room).carer.state.of("Ana").country is None
        await ana.get("/", headers={"accept-language": "fr-FR"})
        assert '<option value="FR" selected>' in (await ana.get("/help")).text
    await desk.close()
