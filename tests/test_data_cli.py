from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agent.rescue import DataError, read_dataset
from agent.rescue.splits import split_ids
from eval.data import locate
from eval.data.__main__ import app
from eval.data.fetch import FetchError, WrongFile, fetch
from eval.data.locate import DEMO_BANNER
from eval.data.published import DATA_COMMIT, DATA_URL, PUBLISHED, Published, count, mismatches
from tests.rescue_data import make_row, make_sample, strategy, train_dev

ROWS = [
    make_row("Ana", "Ben", "I waited for you."),
    make_row("Therapist", "Ana", support_strategy=strategy("evoke", "Ana")),
    make_row("Ben", "Ana", "I know you did."),
]
BODY = (json.dumps(make_sample(*ROWS)) + "\n").encode()


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in ("KITH_RESCUE", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KITH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache" / "rescue" / "benchmark_191.jsonl"


class Server(ThreadingHTTPServer):
    body = BODY
    cut = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        if self.path != "/data.jsonl":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.body) + self.server.cut))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def run(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(args))
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


def own_file(tmp_path: Path, body: bytes = BODY) -> Path:
    path = tmp_path / "own.jsonl"
    path.write_bytes(body)
    return path


def counts_of(path: Path) -> tuple[Published, ...]:
    found = count(read_dataset(path))
    return tuple(
        entry._replace(couple=found[entry.name]["couple"], family=found[entry.name]["family"])
        for entry in PUBLISHED
    )


def test_check_prints_the_published_counts_beside_the_ones_found(tmp_path: Path) -> None:
    code, output = run("check", str(own_file(tmp_path)))
    assert code == 0
    for entry in PUBLISHED:
        assert f"{entry.couple:,}" in output
        assert f"{entry.family:,}" in output
    assert "7,079" in output and "2,646" in output
    assert "OWN DATA" in output
    assert "No faults." in output


def test_check_lists_faults_with_their_number_and_fails(tmp_path: Path) -> None:
    path = own_file(tmp_path, BODY + b"{\n" * 30)
    code, output = run("check", str(path), "--max-faults", "3")
    assert code == 1
    assert "30 faults:" in output
    assert f"{path}:2: broken JSON" in output
    assert "... and 27 more" in output
    assert output.count("broken JSON") == 3


@pytest.mark.parametrize("content", [b"", b"\xff\xfe{", b"[]\n", b"{}\n", b"[" * 9999])
def test_check_has_a_sentence_for_whatever_it_is_given(tmp_path: Path, content: bytes) -> None:
    code, output = run("check", str(own_file(tmp_path, content)))
    assert code == 1
    assert "1 fault:" in output
    assert "Traceback" not in output


def test_check_of_a_missing_path_fails(tmp_path: Path) -> None:
    code, output = run("check", str(tmp_path / "none"))
    assert code == 1
    assert "no such file or folder" in output


def test_a_complete_set_of_ids_must_have_the_published_counts(tmp_path: Path) -> None:
    lines = (json.dumps(make_sample(*ROWS, sample_id=i)) for i in split_ids("all"))
    code, output = run("check", str(own_file(tmp_path, "\n".join(lines).encode())))
    assert code == 1
    assert "rows, couple: 522 found, 5,875 published" in output
    assert "samples, couple" not in output


def test_without_data_the_demo_set_is_checked_under_its_banner() -> None:
    code, output = run("check")
    assert code == 0
    assert "DEMO DATA" in output


def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KITH_SEED", "minus one")
    code, output = run("check")
    assert code == 2
    assert "KITH_SEED" in output


def test_the_order_of_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean_environment: Path
) -> None:
    assert (locate().kind, locate().banner) == ("demo", DEMO_BANNER)
    clean_environment.parent.mkdir(parents=True)
    clean_environment.write_bytes(BODY)
    assert (locate().kind, locate().path) == ("cache", clean_environment)
    path = own_file(tmp_path)
    monkeypatch.setenv("KITH_RESCUE", str(path))
    assert (locate().kind, locate().path) == ("setting", path)
    named = locate(tmp_path / "none.jsonl")
    assert named.kind == "given"
    with pytest.raises(DataError, match="no such file"):
        named.sound()
    assert locate(path).sound().n_rows == 3
    assert locate(path).sha256 == locate().sha256


@pytest.mark.rescue
def test_part_of_the_benchmark_says_so() -> None:
    source = locate(train_dev().path)
    assert source.collection == "rescue"
    assert source.banner == "PART OF RESCUE-BENCH: 151 of 191 samples are here."
    code, output = run("check", str(train_dev().path))
    assert code == 0
    assert "5,531" in output


def test_fetch_stores_a_file_with_the_right_counts(server: Server, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "benchmark_191.jsonl"
    seen: list[tuple[int, int | None]] = []
    fetch(
        f"{server.url}/data.jsonl",
        out,
        lambda received, total: seen.append((received, total)),
        counts_of(own_file(tmp_path)),
    )
    assert out.read_bytes() == BODY
    assert seen[-1] == (len(BODY), len(BODY))
    assert [file.name for file in out.parent.iterdir()] == [out.name]


def test_fetch_refuses_another_file_and_keeps_what_was_there(
    server: Server, clean_environment: Path
) -> None:
    clean_environment.parent.mkdir(parents=True)
    clean_environment.write_bytes(b"before")
    code, output = run("fetch", "--url", f"{server.url}/data.jsonl")
    assert code == 1
    assert "not the published benchmark" in output
    assert "samples, couple: 1 found, 174 published" in output
    assert clean_environment.read_bytes() == b"before"
    assert [file.name for file in clean_environment.parent.iterdir()] == [clean_environment.name]


def test_fetch_refuses_a_file_with_faults(server: Server, tmp_path: Path) -> None:
    server.body = b"<html>\n"
    with pytest.raises(WrongFile) as error:
        fetch(f"{server.url}/data.jsonl", tmp_path / "out.jsonl")
    assert "line:1: broken JSON" in error.value.reasons[0]


@pytest.mark.parametrize("problem", ["404", "no connection", "cut short", "not a URL"])
def test_fetch_says_what_to_download_and_where_to_put_it(
    server: Server, tmp_path: Path, problem: str
) -> None:
    server.cut = 10 if problem == "cut short" else 0
    url = {
        "404": f"{server.url}/none.jsonl",
        "no connection": "http://127.0.0.1:9/data.jsonl",
        "cut short": f"{server.url}/data.jsonl",
        "not a URL": "nonsense",
    }[problem]
    out = tmp_path / "place" / "benchmark_191.jsonl"
    code, output = run("fetch", "--url", url, "--out", str(out))
    assert code == 2
    assert "Download benchmark_191.jsonl" in output
    assert DATA_COMMIT in output
    assert str(out) in output
    assert list(out.parent.iterdir()) == []


def test_fetch_into_an_unusable_place(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FetchError, match="cannot write"):
        fetch(f"{server.url}/data.jsonl", tmp_path / "file" / "out.jsonl")


def test_the_official_address_is_pinned() -> None:
    assert DATA_URL.startswith("https://raw.githubusercontent.com/")
    assert DATA_COMMIT in DATA_URL


@pytest.mark.rescue
def test_mismatches_of_a_part() -> None:
    sentences = list(mismatches(count(train_dev())))
    assert "itp, couple: 2,184 found, 2,722 published" in sentences
