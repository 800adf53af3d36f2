"""Names, links, pages and the application's start, without a browser."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fastapi import FastAPI, Request, Response
from httpx import ASGITransport, AsyncClient

from tests.rooms import Steady, companion_of, desk_for
from ui.desk import Desk
from ui.export import plain
from ui.inputs import Refused, clean_age, clean_line, clean_name, clean_role
from ui.launch import auth_secret
from ui.links import COOKIE, LinkRefused, Links, Member
from ui.routes import make_router

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("  Ana ", "Ana"),
        ("Mary  Jane", "Mary Jane"),
        ('Seán "Shay" O\'Dea', 'Seán "Shay" O\'Dea'),
        ("José", "José"),
        ("שרה", "שרה"),
        ("小明", "小明"),
        ("Ana\u202e\u200b\x00", "Ana"),
        ("Zoë 🌱", "Zoë 🌱"),
    ],
)
def test_names_that_work(typed: str, shown: str) -> None:
    assert clean_name(typed) == shown


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("", "first name"),
        ("🌱🌱", "first name"),
        ("Therapist", "meaning of its own"),
        ("couple", "meaning of its own"),
        ("FAMILY", "meaning of its own"),
        ("k i t h", "meaning of its own"),
        ("Ｋｉｔｈ", "meaning of its own"),
        ("x" * 41, "up to 40"),
        ("ANA", "already"),
        ("an\u200ba", "already"),
    ],
)
def test_names_that_are_refused_with_a_sentence(typed: str, sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        clean_name(typed, ["Ana", "An a"])


@pytest.mark.parametrize(
    "name",
    "Тherapist|Kіth|Kith.|K.i.t.h|Kíth|K1th|Klth|ᴋɪᴛʜ|Κith|**Kith**|Kith (only to you)|"
    "The Therapist|system|helper|third_person|somebody else".split("|"),
)
def test_nobody_can_look_like_the_agent(name: str) -> None:
    with pytest.raises(Refused, match="meaning of its own"):
        clean_name(name)


def test_nobody_can_look_like_somebody_else_and_other_scripts_are_fine() -> None:
    with pytest.raises(Refused, match="already"):
        clean_name("\u0410na", ["Ana"])
    for name in ("Анна", "Κώστας", "李雷", "Keith", "Kit", "José", "Ismaël", "O'Hara", "Jean-Luc"):
        assert clean_name(name, ["Ana"]) == name


def test_roles_and_ages() -> None:
    assert clean_age("couple", "whatever") == "adult"
    with pytest.raises(Refused, match="teen"):
        clean_age("family", "old")
    with pytest.raises(Refused, match="grandparent"):
        clean_role("family", "boss")


def test_lines_keep_what_is_harmless() -> None:
    assert clean_line("a\ud800b\x9f\tc\u202e\nשלום") == "ab\tc\nשלום"


def test_markdown_of_others_is_shown_as_it_was_written() -> None:
    assert plain("![x](http://e) <b> *a*_b_") == r"\!\[x\]\(http://e\) \<b\> \*a\*\_b\_"


def test_links_are_signed_and_expire() -> None:
    links, member = Links("secret", 1), Member("room", "person")
    token = links.invite(member)
    assert links.accept(token) == member
    for bad in (token[:-2], token[:5] + "x" + token[6:], "", links.cookie(member)):
        with pytest.raises(LinkRefused, match="not complete"):
            links.accept(bad)
    with pytest.raises(LinkRefused, match="expired"):
        Links("secret", -1).accept(token)
    with pytest.raises(LinkRefused):
        Links("another secret", 1).accept(token)
    assert links.who(links.cookie(member)) == member
    assert links.who(token) is None and links.who(None) is None and links.who("x") is None


def test_the_secret_is_made_once(tmp_path) -> None:
    desk = desk_for(tmp_path, Steady())
    assert auth_secret(desk.settings) == desk.secret == auth_secret(desk.settings)
    assert len(desk.secret) > 40
    assert (tmp_path / "auth_secret").stat().st_mode & 0o077 == 0


def app_for(desk: Desk) -> FastAPI:
    async def chat(request: Request) -> Response:
        return Response("the chat")

    app = FastAPI()
    app.include_router(make_router(desk, chat, lambda *_: None, lambda *_: None))
    return app


def browser(desk: Desk) -> AsyncClient:
    transport = ASGITransport(app=app_for(desk))
    return AsyncClient(transport=transport, base_url="http://room.test", follow_redirects=True)


async def test_from_the_first_page_into_the_room_and_a_link_for_the_other(tmp_path) -> None:
    desk = desk_for(tmp_path, Steady())
    await desk.engine.start()
    async with browser(desk) as ana, browser(desk) as ben, browser(desk) as stranger:
        assert "not a therapist" in (await ana.get("/")).text
        page = await ana.post("/start/couple", data={"name": "Ana", "role": "partner"})
        assert "Before you start, Ana" in page.text
        assert "Before you start" in (await ana.get("/")).text, "no chat before consent"
        assert (await ana.post("/consent", data={"agree": "yes"})).text == "the chat"
        page = await ana.post("/people", data={"name": "Ana", "role": "partner"})
        assert page.status_code == 422 and "already" in page.text
        page = await ana.post("/people", data={"name": "<b>Ben</b>", "role": "partner"})
        assert "&lt;b&gt;Ben" in page.text and "<b>Ben" not in page.text and "<svg" in page.text
        link = [x for x in page.text.split('"') if "/join/" in x][1]
        page = await ana.get(link)
        assert page.status_code == 403 and "somebody else" in page.text
        page = await stranger.get(link[:-3])
        assert page.status_code == 403 and "Copy the whole link" in page.text
        assert "Before you start" in (await ben.get(link)).text
        assert "Before you start" in (await ben.post(link, data={})).text
        assert (await ben.post(link, data={"agree": "yes"})).text == "the chat"
        assert (await ben.get(link)).text == "the chat", "the same person may come back"
        page = await stranger.get(link)
        assert page.status_code == 403 and "link was used" in page.text
        page = await stranger.post(link, data={"agree": "yes"})
        assert page.status_code == 403 and COOKIE not in stranger.cookies
        seen = [x for x in (await ana.get("/people")).text.split('"') if "/join/" in x]
        assert len(seen) == 1, "nobody is shown a link of somebody who is here"
        own = [x for x in (await ben.get("/people")).text.split('"') if "/join/" in x]
        assert (await ben.post("/exit")).status_code == 204
        assert (await ben.get(own[0])).text == "the chat", "one's own link leads back"
        room = next(iter(desk.hall.rooms.values()))
        assert room.names() == ["Ana", "<b>Ben</b>"]

        cookie = ben.cookies[COOKIE]
        stranger.cookies.set(COOKIE, cookie[:-4] + "AAAA")
        assert "A quiet third voice" in (await stranger.get("/")).text
        for path in ("/people", "/leave", "/export/md", "/consent"):
            assert "A quiet third voice" in (await stranger.get(path)).text, path

        await room.say(list(room.people)[1], "Only for Kith", private=True)
        assert "Only for Kith" in (await ben.get("/export/md")).text
        assert "Only for Kith" not in (await ana.get("/export/jsonl")).text
        await room.say(list(room.people)[1], "Ana hits me", private=True)
        await companion_of(room).idle()
        assert "your fault" in room.lines[-1].text
        page = await ben.post("/leave", data={"how": "erase"})
        assert "A quiet third voice" in page.text
        assert room.names() == ["Ana"] and not [x for x in room.lines if x.text]
    await desk.close()


async def test_help_by_country_and_never_a_guessed_number(tmp_path) -> None:
    desk = desk_for(tmp_path, Steady())
    async with browser(desk) as one:
        page = (await one.get("/help", headers={"accept-language": "en-GB,en;q=0.9"})).text
        assert "116 123" in page and 'href="tel:999"' in page and "988" not in page
        page = (await one.get("/help", headers={"accept-language": "en-US,en;q=0.9"})).text
        assert "988" not in page and "findahelpline.com" in page and "local emergency" in page
        page = (await one.get("/help?country=<script>")).text
        assert "<script>" not in page.split("</head>")[1] and "findahelpline.com" in page
    await desk.close()


async def test_a_shared_screen_and_a_demo(tmp_path) -> None:
    desk = desk_for(tmp_path, Steady())
    await desk.engine.start()
    async with browser(desk) as one:
        same = {"name": "Ana", "name2": "ana", "role": "partner", "role2": "partner"}
        page = await one.post("/start/couple?together=1", data=same)
        assert page.status_code == 422 and not desk.hall.rooms
        page = await one.post("/start/couple?together=1", data={**same, "name2": "Ben"})
        assert "We agree" in page.text
        await one.post("/consent", data={"agree": "yes"})
        room = next(iter(desk.hall.rooms.values()))
        assert room.names() == ["Ana", "Ben"] and room.one_browser
        await one.post("/people", data={"name": "Cleo", "role": "partner"})
        assert room.names() == ["Ana", "Ben", "Cleo"]
        await one.get("/help?country=FR", headers={"accept-language": "en-GB"})
        await room.say(list(room.people)[2], "I want to die")
        await companion_of(room).idle()
        assert "3114" in room.lines[-1].text, "a country chosen on one screen holds for all"
        await one.post("/leave", data={"how": "delete"})
        assert not desk.hall.rooms and await desk.store.room(room.info.id) is None
        assert (await one.get("/demo")).text.count("Play it") == 24
        page = await one.post("/demo", data={"id": "nothing"})
        assert page.status_code == 422
        assert (await one.post("/demo", data={"id": "couple/nora_and_kit"})).text == "the chat"
    await desk.close()


def test_chainlit_run_leaves_nothing_in_the_working_directory(tmp_path) -> None:
    show = "import os; print(os.environ.get('CHAINLIT_APP_ROOT'))"
    code = (
        "import sys, chainlit.config\n"
        f"sys.orig_argv = [sys.executable, '-c', {show!r}]\n"
        "from ui.launch import ensure_app_root\n"
        "ensure_app_root()\n"
    )
    env = {k: v for k, v in os.environ.items() if k != "CHAINLIT_APP_ROOT"}
    out = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**env, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert out.stdout.strip().endswith(str(ROOT / "ui"))
    assert list(tmp_path.iterdir()) == []


def test_checkpoints_may_only_hold_our_types() -> None:
    code = (
        "import ui.engine; from langgraph.checkpoint.serde import _msgpack; "
        "assert _msgpack.STRICT_MSGPACK_ENABLED"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)


def test_only_the_glue_and_the_callbacks_import_chainlit() -> None:
    users = {
        file.name
        for file in (ROOT / "ui").glob("*.py")
        if any(
            line.strip().startswith(("import chainlit", "from chainlit"))
            for line in file.read_text(encoding="utf-8").splitlines()
        )
    }
    assert users == {"app.py", "chainlit_glue.py"}


def test_no_page_or_script_loads_anything_from_elsewhere() -> None:
    for file in (ROOT / "ui" / "public").rglob("*"):
        if file.suffix in {".css", ".js", ".jsx", ".svg", ".json"}:
            text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
            for word in ('@import url("http', 'src="http', 'fetch("http', "url(http"):
                assert word not in text, file.name
