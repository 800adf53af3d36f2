"""The room's own app with a policy that answers at once: it speaks after a question.

Lines with the word "slowly" take it two seconds, and the word "explode" makes it fail, once.
Everything else is the real thing.
"""

from __future__ import annotations

import asyncio

from agent.decision import Timing
from agent.policies.base import View
from agent.reading import Reading
from tests.rooms import Steady
from ui import app


class Answering(Steady):
    name = "local"
    exploded = False

    async def read(self, view: View, new: int) -> Reading:
        if any("slowly" in t.text for t in view.turns[len(view.turns) - new :]):
            await asyncio.sleep(2)
        if not self.exploded and "explode" in view.turns[-1].text:
            self.exploded = True
            raise RuntimeError("sk-secret and " + view.turns[-1].text)
        return await super().read(view, new)

    async def time(self, view: View, reading: Reading) -> Timing:
        self.probability = 0.9 if view.turns and view.turns[-1].text.endswith("?") else 0.1
        return await super().time(view, reading)


app.desk.engine._make = lambda name, settings: Answering()
