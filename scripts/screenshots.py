"""Takes the README's pictures of the room: python scripts/screenshots.py [FOLDER].

Starts a room of its own, plays part of a demo conversation with the local policy and saves
room.png, room-dark.png, room-phone.png and room-phone-panel.png (default: docs/images).
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.browser import ARGS, CHROMIUM, running  # noqa: E402

DEMO, TURNS = "couple/nora_and_kit", 12
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}


async def demo_room(page: Any, url: str, demo: str, turns: int) -> None:
    """Open a demo conversation and play its first turns."""
    await page.goto(url + "/demo")
    await page.click(f'form:has([value="{demo}"]) button')
    await page.wait_for_selector("#kith-step")
    for i in range(turns):
        await page.click("#kith-step")
        await page.wait_for_function(
            f"document.querySelectorAll('[data-kith]:not([data-side=agent])').length >= {i + 1}"
        )
        await asyncio.sleep(1.2)
    await page.click("#kith-menu summary")
    await page.click("#kith-speak")
    await page.wait_for_selector('[data-side="agent"] .why')
    await asyncio.sleep(2.5)


async def settle(page: Any) -> None:
    """Wait for the end of motions and go to the end of the chat."""
    await page.evaluate("document.querySelector('[data-kith]:last-of-type')?.scrollIntoView()")
    await page.mouse.move(5, 5)
    await asyncio.sleep(1)


async def shots(folder: Path, url: str) -> None:
    """Take all pictures."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGS)
        context = await browser.new_context(viewport=DESKTOP)
        page = await context.new_page()
        page.set_default_timeout(60_000)
        await demo_room(page, url, DEMO, TURNS)
        await page.screenshot(path=folder / "room.png")
        await page.emulate_media(color_scheme="dark")
        await page.reload()
        await page.wait_for_selector(".kr-graph")
        await settle(page)
        await page.screenshot(path=folder / "room-dark.png")
        await page.emulate_media(color_scheme="light")
        await page.set_viewport_size(PHONE)
        await page.reload()
        await page.wait_for_selector("[data-kith]")
        await settle(page)
        await page.screenshot(path=folder / "room-phone.png")
        await page.click("#kith-panel-button")
        await page.wait_for_selector(".kr-graph")
        await settle(page)
        await page.screenshot(path=folder / "room-phone-panel.png")
        await browser.close()


def main() -> None:
    """Run from the command line."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data, running(Path(data)) as server:
        asyncio.run(shots(folder, server.url))


if __name__ == "__main__":
    main()
