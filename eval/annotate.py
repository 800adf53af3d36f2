"""``python -m eval.annotate EXPORT``: judge the agent's turns of own conversations in a browser.

Reads the room's export (JSON lines in RESCUE's format). For each turn of the agent: was it right
to speak, to whom, with which strategy, and a comment; after a participant's turn it can be said
that support was missing. The result is RESCUE data again and can be replayed:
``python -m eval.replay --data ANNOTATED --split all --protocol live``.
"""

from __future__ import annotations

import json
import secrets
import webbrowser
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from agent.labels import GROUP_LABEL, STRATEGIES, THERAPIST, Scenario, title_of
from agent.rescue import DataError, Dataset, load_dataset
from agent.rescue.annotations import people_present, scenario_of
from eval.files import StoreError, write_jsonl

EXIT_INPUT: Final = 2
KEY: Final = "annotation"
"""Stands beside RESCUE's fields in a row: what was said about it, comment included."""
VERDICTS: Final = ("", "right", "wrong", "missing")
"""Not judged; right to speak; wrong to speak; support was missing after this turn."""
LONGEST_COMMENT: Final = 4000
LONGEST_REQUEST: Final = 100_000

app = typer.Typer(help=__doc__, pretty_exceptions_enable=False, add_completion=False)


class WrongAnnotation(ValueError):
    """A judgement that does not fit the conversation; the message names the field."""


class Annotations:
    """The conversations and what was said about their turns; every change is on the disk at once.

    Args:
        export: the room's export.
        out: where the annotated conversations go; earlier work there is taken up.

    Raises:
        DataError: when the export, or what is in ``out``, cannot be read.
        StoreError: when ``out`` belongs to another export.
    """

    def __init__(self, export: Path, out: Path) -> None:
        self.out = out
        self._lock = Lock()
        dataset = load_dataset(export)
        self._samples = [json.loads(s.model_dump_json()) for s in dataset.samples]
        self._scenarios: list[Scenario] = [scenario_of(s) for s in dataset.samples]
        self._people = [people_present(s.rows) for s in dataset.samples]
        self._given = [[r["support_strategy"] for r in s["rows"]] for s in self._samples]
        if out.exists():
            self._take_up(load_dataset(out))

    def page_data(self) -> dict[str, Any]:
        """Return what the page shows."""
        return {
            "samples": [
                {
                    "id": sample["sample_id"],
                    "targets": [*self._people[n], GROUP_LABEL[self._scenarios[n]]],
                    "strategies": [
                        [s, title_of("strategy", self._scenarios[n], s)]
                        for s in STRATEGIES[self._scenarios[n]]
                    ],
                    "rows": [self._shown(n, place) for place in range(len(sample["rows"]))],
                }
                for n, sample in enumerate(self._samples)
            ]
        }

    def put(self, change: Mapping[str, Any]) -> None:
        """Store one judgement.

        Args:
            change: ``sample`` and ``row`` (0-based), ``verdict``, ``target``, ``strategy``,
                ``comment``.

        Raises:
            WrongAnnotation: when it does not fit.
            StoreError: when it cannot be written.
        """
        n, place = change.get("sample"), change.get("row")
        if not isinstance(n, int) or not 0 <= n < len(self._samples):
            raise WrongAnnotation("sample: there is no such conversation")
        rows = self._samples[n]["rows"]
        if not isinstance(place, int) or not 0 <= place < len(rows):
            raise WrongAnnotation("row: there is no such turn")
        kept = self._checked(n, rows[place], change)
        with self._lock:
            rows[place][KEY] = kept
            self._apply(n, place)
            write_jsonl(self.out, self._samples)

    def _checked(self, n: int, row: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, str]:
        kept = {k: change.get(k, "") for k in ("verdict", "target", "strategy", "comment")}
        for name, value in kept.items():
            if not isinstance(value, str) or len(value) > LONGEST_COMMENT:
                raise WrongAnnotation(f"{name}: expected a text of at most {LONGEST_COMMENT}")
        by_agent = row["primary_speaker"].strip() == THERAPIST
        allowed = {
            "verdict": ("", "right", "wrong") if by_agent else ("", "missing"),
            "target": ("", *self._people[n], GROUP_LABEL[self._scenarios[n]]),
            "strategy": ("", *STRATEGIES[self._scenarios[n]]),
        }
        for name, values in allowed.items():
            if kept[name] not in values:
                raise WrongAnnotation(f"{name}: not one of the choices for this turn")
        return kept

    def _apply(self, n: int, place: int) -> None:
        """Bring a judgement into RESCUE's fields: the gold a replay is scored against."""
        row = self._samples[n]["rows"][place]
        said = row[KEY]
        given = self._given[n][place]
        if said["verdict"] == "wrong":
            row["support_strategy"] = []
        elif said["verdict"] == "right":
            first = given[0] if given else {}
            target = [said["target"]] if said["target"] else first.get("target", row["target"])
            kind = said["strategy"] or first.get("strategy_type", "")
            row["support_strategy"] = [
                {
                    "provider": THERAPIST,
                    "target": list(target),
                    "strategy_type": kind,
                    "strategy_content": said["comment"],
                }
            ]
        else:
            row["support_strategy"] = given

    def _shown(self, n: int, place: int) -> dict[str, Any]:
        row = self._samples[n]["rows"][place]
        given = self._given[n][place]
        first = given[0] if given else {}
        return {
            "speaker": row["primary_speaker"],
            "to": [t for t in row["target"] if t],
            "text": row["dialogue_cleaned"],
            "agent": row["primary_speaker"].strip() == THERAPIST,
            "decided": {
                "target": ", ".join(first.get("target", ())),
                "strategy": first.get("strategy_type", ""),
            },
            "said": row.get(KEY),
        }

    def _take_up(self, earlier: Dataset) -> None:
        """Read the judgements an earlier session left."""
        kept = {}
        for line in self.out.read_text(encoding="utf-8").splitlines():
            sample = json.loads(line)
            kept[sample["sample_id"]] = sample
        for n, sample in enumerate(self._samples):
            before = kept.get(sample["sample_id"])
            if before is None or len(before["rows"]) != len(sample["rows"]):
                raise StoreError(f"{self.out} holds other conversations: choose another --out")
            for place, row in enumerate(before["rows"]):
                if row["dialogue_cleaned"] != sample["rows"][place]["dialogue_cleaned"]:
                    raise StoreError(f"{self.out} holds other conversations: choose another --out")
                if KEY in row:
                    sample["rows"][place][KEY] = self._checked(n, sample["rows"][place], row[KEY])
                    self._apply(n, place)


def page(data: Mapping[str, Any]) -> str:
    """Return the page: one file, nothing is fetched from elsewhere."""
    web = files("eval").joinpath("web")
    css = web.joinpath("report.css").read_text(encoding="utf-8")
    more = web.joinpath("annotate.css").read_text(encoding="utf-8")
    script = web.joinpath("annotate.js").read_text(encoding="utf-8")
    content = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,"><title>Annotate</title>'
        f"<style>{css}{more}</style></head><body><h1>Was it right to speak?</h1>"
        '<p class="notes">Every change is saved at once. Close the page when you are done.</p>'
        '<p id="state" role="status"></p><main id="main"></main>'
        f'<script type="application/json" id="data">{content}</script>'
        f"<script>{script}</script></body></html>\n"
    )


class Server(ThreadingHTTPServer):
    """Serves one annotation session on loopback, behind an unguessable path.

    Args:
        annotations: what is annotated.
        port: 0 takes a free one.
    """

    daemon_threads = True

    def __init__(self, annotations: Annotations, port: int = 0) -> None:
        self.annotations = annotations
        self.token = secrets.token_urlsafe(16)
        super().__init__(("127.0.0.1", port), Handler)

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server_address[1]}/{self.token}/"


class Handler(BaseHTTPRequestHandler):
    """Answers the page and its saves; anything else is not found."""

    server: Server
    timeout = 30

    def do_GET(self) -> None:
        """Send the page."""
        if not self._mine(f"/{self.server.token}/"):
            return
        self._send(HTTPStatus.OK, page(self.server.annotations.page_data()), "text/html")

    def do_POST(self) -> None:
        """Save one judgement."""
        if not self._mine(f"/{self.server.token}/save"):
            return
        try:
            length = int(self.headers.get("Content-Length", ""))
            if not 0 < length <= LONGEST_REQUEST:
                raise WrongAnnotation("request: too long or empty")
            change = json.loads(self.rfile.read(length))
            if not isinstance(change, dict):
                raise WrongAnnotation("request: expected an object")
            self.server.annotations.put(change)
        except StoreError as error:
            self._send(HTTPStatus.INSUFFICIENT_STORAGE, str(error), "text/plain")
        except ValueError as error:
            told = str(error) if isinstance(error, WrongAnnotation) else "request: no JSON"
            self._send(HTTPStatus.BAD_REQUEST, told, "text/plain")
        else:
            self._send(HTTPStatus.OK, "saved", "text/plain")

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: a path holds the token."""

    def _mine(self, path: str) -> bool:
        # another site's name that points at this machine must not get in
        own = {f"127.0.0.1:{self.server.server_address[1]}"}
        if self.path == path and self.headers.get("Host") in own:
            return True
        self._send(HTTPStatus.NOT_FOUND, "not found", "text/plain")
        return False

    def _send(self, status: HTTPStatus, text: str, kind: str) -> None:
        content = text.encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(content)


@app.command()
def main(
    export: Annotated[Path, typer.Argument(help="The room's export (JSON lines).")],
    out: Annotated[
        Path | None, typer.Option(help="Annotated conversations; default EXPORT.annotated.jsonl.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
) -> None:
    """Serve the annotation page on this machine until Ctrl-C."""
    console = Console()
    target = out or export.with_suffix(".annotated.jsonl")
    try:
        server = Server(Annotations(export, target), port)
    except (DataError, StoreError, WrongAnnotation, OSError) as error:
        console.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(EXIT_INPUT) from None
    console.print(f"annotate at {server.url}", highlight=False, soft_wrap=True)
    console.print(f"saved to {target}; Ctrl-C ends", highlight=False, soft_wrap=True)
    if browser:
        webbrowser.open(server.url)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        console.print("done")
    finally:
        server.server_close()


if __name__ == "__main__":
    app(prog_name="python -m eval.annotate")
