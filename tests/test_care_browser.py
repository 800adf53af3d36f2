"""Care in Chromium: leaving quickly, sharing a whisper, choosing a country (S13, S26, S27)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser import Server, pick, say
from tests.test_room_browser import Guests, reads

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
NEUTRAL = "https://www.wikipedia.org/"
SECRET = "The heron nests at midnight."


@pytest.fixture
def guests(chromium: Any, server: Server) -> Guests:
    return Guests(chromium, server)


@pytest.mark.parametrize("way", ["button", "escape"])
async def test_s26_leaving_quickly(guests: Guests, way: str) -> None:
    ana = await guests.host("Ana")
    await ana.route(f"{NEUTRAL}**", lambda route: route.fulfill(body="neutral"))
    await pick(ana, "to", "Only to Kith")
    await say(ana, SECRET)
    await ana.wait_for_selector("[data-private]")
    assert SECRET not in await ana.title()
    if way == "button":
        await ana.click("[data-exit]")
    else:
        for _ in range(3):
            await ana.keyboard.press("Escape")
    await ana.wait_for_url(NEUTRAL)
    for _ in range(3):
        await ana.go_back()
        assert SECRET not in await ana.content()
        assert await ana.locator("[data-kith]").count() == 0
    await ana.goto(guests.server.url)
    await ana.wait_for_selector("text=A quiet third voice")
    assert SECRET not in await ana.content()


async def test_s26_leaving_takes_a_tab_on_another_device_along(guests: Guests) -> None:
    ana = await guests.host("Ana")
    page = await ana.context.new_page()
    await page.goto(guests.server.url + "/people")
    own = await page.locator("input.link").first.input_value()
    phone = await (await guests.context()).page()
    await phone.goto(own)
    await phone.wait_for_selector("#mode-picker-trigger-to")
    await say(ana, SECRET)
    await phone.wait_for_selector("[data-kith]")
    await page.goto(guests.server.url + "/leave")
    await page.click("text=Leave, and keep what was said")
    for tab in (ana, phone):
        await tab.wait_for_selector("text=A quiet third voice")
        assert SECRET not in await tab.content()
    await phone.goto(own)
    await phone.wait_for_selector("text=Before you start, Ana")
    assert SECRET not in await phone.content()
    await guests.agree(phone)
    await phone.wait_for_selector("[data-kith]")
    assert SECRET in await phone.content()


async def test_s13_a_whisper_is_shared_and_taken_back(guests: Guests) -> None:
    ana = await guests.host("Ana")
    ben = await guests.guest(ana, "Ben")
    await pick(ana, "to", "Only to Kith")
    await say(ana, SECRET)
    await ana.wait_for_selector("[data-private] .share")
    await ana.locator("[data-private] .share").first.click()
    await ana.locator("[data-private] .yes-share").first.click()
    await reads(ben, SECRET)
    await ana.wait_for_selector("[data-private] .unshare")
    await ana.reload()
    await ana.locator("[data-private] .unshare").first.click()
    await ben.wait_for_function("!document.querySelector('[data-kith]')")
    await ben.reload()
    await ben.wait_for_selector(".kith-welcome")
    assert SECRET not in await ben.content()


async def test_s12_what_kith_said_to_one_person_alone_can_be_erased(guests: Guests) -> None:
    ana = await guests.host("Ana")
    ben = await guests.guest(ana, "Ben")
    await pick(ana, "to", "Only to Kith")
    await say(ana, SECRET)
    told = ana.locator("[data-private][data-side=agent]")
    await told.locator(".erase").first.click(timeout=30_000)
    assert "for everyone" not in await told.locator(".sure").first.inner_text()
    await told.locator(".yes").first.click()
    await told.first.wait_for(state="detached")
    await ana.reload()
    await ana.wait_for_selector("[data-private][data-side=own] .erase", state="attached")
    assert await told.count() == 0
    assert await ben.locator("[data-kith]").count() == 0


async def test_s23_a_young_person_who_joins_is_told_to_those_who_are_there(guests: Guests) -> None:
    ana = await guests.host("Ana", scenario="family")
    page = await ana.context.new_page()
    await page.goto(guests.server.url + "/people")
    await page.fill('[name="name"]', "Mia")
    await page.select_option('[name="age"]', "teen")
    await page.click('button:has-text("Make a link")')
    link = await page.locator("li", has_text="Mia").locator("input.link").input_value()
    await page.close()
    assert not await ana.locator("text=young person has joined").count()
    mia = await (await guests.context()).page()
    await mia.goto(link)
    await guests.agree(mia)
    await ana.wait_for_selector("text=A young person has joined and can read what was said here.")
    assert not await mia.locator("text=young person has joined").count()
    await ana.click("#kith-notice .close")
    assert not await ana.locator("#kith-notice").is_visible()


async def test_s27_a_country_is_chosen_once_and_kept(guests: Guests) -> None:
    ana = await guests.host("Ana", locale="en-US")
    await ana.goto(guests.server.url + "/help")
    assert "988" not in await ana.locator("main").inner_text(), "no country by default"
    await ana.goto(guests.server.url + "/help?country=GB")
    await ana.goto(guests.server.url)
    await ana.wait_for_selector("#mode-picker-trigger-to")
    await pick(ana, "to", "Only to Kith")
    await say(ana, "I want to die")
    await ana.wait_for_selector("[data-private] >> text=116 123", timeout=30_000)
    told = " ".join(await ana.locator("[data-private]").all_inner_texts())
    assert "988" not in told
