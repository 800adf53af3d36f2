"""The room in Chromium: several people, whispers, reconnects, forgetting, phones."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser import (
    Server,
    Watched,
    lines,
    pick,
    running,
    say,
    share_a_screen,
)

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
# notes sockets, so that a test can cut them
SOCKETS = """
(() => {
  const Own = window.WebSocket
  window.kithSockets = []
  window.WebSocket = class extends Own {
    constructor(...args) { super(...args); window.kithSockets.push(this) }
  }
})()
"""


class Guests:
    """People in one room, a browser context each."""

    def __init__(self, chromium: Any, server: Server) -> None:
        self.chromium, self.server = chromium, server
        self.watched: list[Watched] = []

    async def context(self, **options: Any) -> Watched:
        options.setdefault("viewport", {"width": 1280, "height": 800})
        context = await self.chromium.new_context(**options)
        await context.add_init_script(SOCKETS)
        self.watched.append(Watched(context, self.server.url))
        return self.watched[-1]

    async def host(self, name: str, scenario: str = "couple", **options: Any) -> Any:
        page = await (await self.context(**options)).page()
        await page.goto(f"{self.server.url}/start/{scenario}")
        await page.fill('[name="name"]', name)
        await page.click("text=Go on")
        await self.agree(page)
        return page

    async def agree(self, page: Any) -> None:
        await page.check('[name="agree"]')
        await page.click("text=Enter the room")
        await page.wait_for_selector("#mode-picker-trigger-to")

    async def link(self, host: Any, name: str) -> str:
        page = await host.context.new_page()
        await page.goto(self.server.url + "/people")
        await page.fill('[name="name"]', name)
        await page.click('button:has-text("Make a link")')
        found = page.locator("li", has_text=name).locator("input.link")
        await found.wait_for(state="attached")
        link = await found.input_value()
        await page.close()
        return str(link)

    async def guest(self, host: Any, name: str, **options: Any) -> Any:
        link = await self.link(host, name)
        page = await (await self.context(**options)).page()
        await page.goto(link)
        await self.agree(page)
        return page

    def clean(self) -> None:
        for watched in self.watched:
            assert watched.external == [], "no request leaves the server"
            assert [e for e in watched.errors if "DialogTitle" not in e] == []


@pytest.fixture
def guests(chromium: Any, server: Server) -> Guests:
    return Guests(chromium, server)


async def told(page: Any) -> list[str]:
    texts: list[str] = await lines(page).all_inner_texts()
    return [t.strip() for t in texts]


async def wait_lines(page: Any, count: int) -> list[str]:
    await page.wait_for_function(
        "n => document.querySelectorAll('[data-kith]').length === n", arg=count
    )
    return await told(page)


async def reads(page: Any, *expected: str) -> None:
    """Wait until the chat reads as expected: a reply streams word by word."""
    found: list[str] = []
    for _ in range(150):
        found = await told(page)
        if found == list(expected):
            return
        await asyncio.sleep(0.1)
    assert found == list(expected)


REPLY = "Ana, what did you hear just now?"


async def test_three_people_in_one_room(guests: Guests) -> None:
    ana = await guests.host("Ana", "family")
    ben = await guests.guest(ana, "Бен")
    cleo = await guests.guest(ana, "Chloë O'Dea")
    await say(ana, "I found the letter in the kitchen.")
    await wait_lines(ben, 1)
    await say(ben, "![x](http://example.invalid/x.png) **not** bold")
    await wait_lines(cleo, 2)
    await say(cleo, "Can we talk about it?")
    expected = [
        "I found the letter in the kitchen.",
        "![x](http://example.invalid/x.png) **not** bold",
        "Can we talk about it?",
    ]
    for page in (ana, ben, cleo):
        await reads(page, *expected, REPLY)
        assert await page.locator(".ai-message img[src*=example]").count() == 0
    names = await ana.locator(".kith-label .name").all_inner_texts()
    assert names == ["Ana", "Бен", "Chloë O'Dea", "Kith"]
    sides = [await x.get_attribute("data-side") for x in await ben.locator("[data-kith]").all()]
    assert sides == ["other", "own", "other", "agent"]
    colours = await ana.locator("[data-kith]").evaluate_all(
        "ns => ns.map(n => n.style.getPropertyValue('--who'))"
    )
    assert len(set(colours)) == 4
    # the panel changed, and a claim leads to its lines
    node = ana.locator('.kr-node[aria-label^="Chloë"]')
    assert "hurt" in str(await node.get_attribute("aria-label"))
    await ana.locator('.kr-edge[aria-label*="Бен"]').first.press("Enter")
    await ana.click(".kr-card >> text=Show where")
    await ana.wait_for_selector(".kith-shown")
    await ana.click("text=In words")
    assert "seems hurt (6 out of 10)" in await ana.locator(".kr-words").inner_text()
    guests.clean()


async def test_a_whisper_that_only_one_sees(guests: Guests) -> None:
    ana = await guests.host("Ana")
    ben = await guests.guest(ana, "Ben")
    await pick(ana, "to", "Only to Kith")
    await say(ana, "The heron nests at midnight")
    await ana.wait_for_selector('[data-private] >> text="The heron nests at midnight"')
    await ana.wait_for_selector(f"[data-private] >> text={REPLY}")
    # somebody who joins, reloads or reconnects must not turn a whisper into a line for everyone
    link = await guests.link(ana, "Cleo")
    cleo = (await guests.context()).context
    await cleo.request.post(link, form={"agree": "yes"})
    await ana.wait_for_selector('.kr-node[aria-label^="Cleo"]')
    await ana.evaluate("window.kithSockets.forEach(s => s.close())")
    await asyncio.sleep(2)
    await ana.reload()
    await ana.wait_for_selector('#mode-picker-trigger-to >> text="Only to Kith"')
    await say(ana, "Still only for you.")
    await ana.wait_for_selector('[data-private] >> text="Still only for you."')
    await pick(ana, "to", "To everyone")
    await say(ana, "Hello, Ben.")
    await reads(ben, "Hello, Ben.")
    await ben.reload()
    await reads(ben, "Hello, Ben.")
    assert "heron" not in await ben.content()
    response = await ben.request.get(guests.server.url + "/export/jsonl")
    assert "heron" not in await response.text()
    await ana.reload()
    whispered = ["The heron nests at midnight", REPLY, "Still only for you.", REPLY]
    await reads(ana, *whispered, "Hello, Ben.")
    guests.clean()


async def test_reload_reconnect_and_restart(guests: Guests) -> None:
    ana = await guests.host("Ana")
    ben = await guests.guest(ana, "Ben")
    second_tab = await ana.context.new_page()
    await second_tab.goto(guests.server.url)
    await second_tab.wait_for_selector("#mode-picker-trigger-to")
    await say(ana, "Are you slowly listening?")
    await wait_lines(second_tab, 1)
    await asyncio.sleep(1.0)
    await ana.evaluate("window.kithSockets.forEach(s => s.close())")
    await ben.reload()
    for page in (ana, ben, second_tab):
        await reads(page, "Are you slowly listening?", REPLY)
    await say(ben, "Yes, I am.")
    for page in (ana, ben, second_tab):
        await reads(page, "Are you slowly listening?", REPLY, "Yes, I am.")
    guests.clean()
    guests.server.stop()
    guests.server.start()
    for page in (ana, ben, second_tab):
        await page.wait_for_selector("#session-error", state="detached")
    await say(ben, "And you?")
    for page in (ana, ben, second_tab):
        await reads(page, "Are you slowly listening?", REPLY, "Yes, I am.", "And you?", REPLY)


async def test_correct_and_erase(guests: Guests) -> None:
    ana = await guests.host("Ana")
    ben = await guests.guest(ana, "Ben")
    await say(ana, "You never listen to me when I speak.")
    await wait_lines(ben, 1)
    await ana.locator('.kr-edge[aria-label="Ana is at odds with Ben"]').press("Enter")
    assert "never listens" in await ana.locator(".kr-card").first.inner_text()
    await ana.click("text=That is not right")
    await ana.wait_for_selector("text=That is out of the picture")
    await ben.wait_for_function("!document.querySelector('.kr-edge')")
    await ana.locator(".kith-tools .erase").first.click()
    await ana.click(".kith-tools .yes")
    for page in (ana, ben):
        await wait_lines(page, 0)
    await ben.reload()
    await ben.wait_for_selector(".kith-welcome")
    assert "never listen" not in await ben.content()
    guests.clean()


async def test_cookies_and_sessions_of_others_are_refused(guests: Guests) -> None:
    ana = await guests.host("Ana")
    ben = await guests.guest(ana, "Ben")
    await say(ana, "Only those who belong here can read this.")
    await wait_lines(ben, 1)
    stolen = guests.watched[0].session
    thief = await guests.host("Mallory")

    async def steal(route: Any) -> None:
        body = route.request.post_data or ""
        body = re.sub(r'("sessionId":)"[^"]+"', rf'\1"{stolen}"', body)
        await route.continue_(post_data=body if route.request.method == "POST" else None)

    await thief.context.route("**/ws/socket.io/**", steal)
    await thief.reload()
    await thief.wait_for_selector("#session-error")
    assert "belong here" not in await thief.content()
    assert "Authorization for the session failed" in guests.server.log
    cookies = await ben.context.cookies()
    for cookie in cookies:
        cookie["value"] = cookie["value"][:-6] + "AAAAAA"
    forged = (await guests.context()).context
    await forged.add_cookies(cookies)
    page = await forged.new_page()
    await page.goto(guests.server.url)
    await page.wait_for_selector("text=A quiet third voice")
    status = await page.evaluate("fetch('/user').then(r => r.status)")
    assert status == 401
    link = await guests.link(ana, "Cleo")
    await page.goto(link[:-4])
    await page.wait_for_selector("text=This link does not work")
    await ben.goto(link)
    await ben.wait_for_selector("text=This link is for somebody else")


async def test_bad_input_and_a_failing_agent_leave_the_room_whole(guests: Guests) -> None:
    ana = await guests.host('Ana "Annie" O\'Neil')
    ben = await guests.guest(ana, "בן")
    await say(ana, "x" * 100_000)
    await ana.wait_for_selector("text=has 100,000 characters")
    await ana.click("#kith-notice .close")
    await say(ana, "   ")
    await say(ben, "שלום 👩‍👩‍👧 \x07bell")
    # the browser shows its own line at once, and as the room keeps it a moment later
    await reads(ben, "שלום 👩‍👩‍👧 bell")
    await say(ana, "Now explode, please")
    await ben.wait_for_selector("text=Kith cannot be reached just now")
    await say(ana, "Are you there?")
    assert (await wait_lines(ben, 4))[1:3] == ["Now explode, please", "Are you there?"]
    assert "sk-secret" not in await ben.content() + await ana.content()
    assert "sk-secret" not in guests.server.log and "RuntimeError" in guests.server.log
    await ana.reload()
    await wait_lines(ana, 4)
    guests.clean()


async def test_a_demo_conversation_plays(guests: Guests) -> None:
    page = await (await guests.context()).page()
    await page.goto(guests.server.url)
    await page.click("text=Choose a conversation")
    await page.click("button:has-text('Play it') >> nth=0")
    await page.wait_for_selector("#kith-step")
    await page.click("#kith-step")
    await page.wait_for_selector("[data-kith]")
    await page.select_option("#kith-play select", "4")
    await page.click("#kith-playing")
    await page.wait_for_function("document.querySelectorAll('[data-kith]').length >= 3")
    await page.click("#kith-playing:has-text('Pause')")
    await page.wait_for_selector("#kith-playing:has-text('Play')")
    await page.wait_for_selector('.kr-node[aria-label*="hurt"]')
    guests.clean()


async def test_a_phone(guests: Guests) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    ana = await guests.host("Ana", **phone)
    await say(ana, "Is anybody there?")
    await wait_lines(ana, 2)
    await asyncio.sleep(0.5)
    assert await ana.locator("#side-view-content").count() == 0, "the panel waits to be asked"
    await ana.click("#kith-panel-button")
    await ana.wait_for_selector("#side-view-content .kr-graph")
    await ana.click(".kr-card >> text=Show where >> nth=0")
    await ana.wait_for_selector("#side-view-content", state="detached")
    await ana.wait_for_selector(".kith-shown")
    wide = await ana.evaluate("document.documentElement.scrollWidth")
    assert wide <= 390
    box = await ana.locator("#kith-bar .exit").bounding_box()
    assert box and box["x"] + box["width"] <= 390
    guests.clean()


async def test_leaving_quickly(guests: Guests) -> None:
    ana = await guests.host("Ana")
    await ana.route("https://www.wikipedia.org/**", lambda route: route.fulfill(body="neutral"))
    await say(ana, "Nobody should read this.")
    await wait_lines(ana, 1)
    for _ in range(3):
        await ana.keyboard.press("Escape")
    await ana.wait_for_url("https://www.wikipedia.org/")
    await ana.go_back()
    assert "Nobody should read this" not in await ana.content()
    await ana.goto(guests.server.url)
    await ana.wait_for_selector("text=A quiet third voice")


async def test_one_screen_with_the_small_model(chromium: Any, tmp_path: Path) -> None:
    """The first thing a newcomer does, with the policy that ships."""
    with running(tmp_path) as server:
        context = await chromium.new_context(viewport={"width": 1280, "height": 800})
        watched = Watched(context, server.url)
        page = await watched.page()
        await share_a_screen(page, server.url, "Ana", "Ben")
        await pick(page, "speaker", "As Ana")
        await say(page, "You were late again, and I was alone with the kids until nine.")
        await wait_lines(page, 1)
        await pick(page, "speaker", "As Ben")
        await say(page, "I know. I was scared to tell you about work.")
        await wait_lines(page, 2)
        await page.wait_for_selector(".kr-node[aria-label*='out of 10']", timeout=60_000)
        await page.click("#kith-menu summary")
        await page.click("#kith-speak")
        await page.wait_for_selector('[data-side="agent"] .why', timeout=60_000)
        await page.wait_for_selector('section[aria-label="What Kith decided last"]')
        await page.click(".what-else")
        await page.wait_for_selector(".kith-more .variant")
        await asyncio.sleep(1.5)  # its words stream
        told_before = await wait_lines(page, 3)
        await page.click('.vote[data-vote="1"]')
        await page.wait_for_selector('.vote[data-vote="1"][aria-pressed="true"]')
        await page.reload()
        await reads(page, *told_before)
        await page.wait_for_selector('.vote[data-vote="1"][aria-pressed="true"]')
        await page.wait_for_selector(".kr-node[aria-label*='out of 10']")
        assert watched.external == [] and watched.errors == []
