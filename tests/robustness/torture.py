"""The campaign: python -m tests.robustness.torture [--jobs 2] [--minutes 60]; see docs/security.md.

Workers under a limit on memory and time try numbered cases; what they found is kept after every few hundred, so that a
campaign that was stopped goes on where it was. ``--case model 1234`` repeats one case here, with its traceback.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.robustness.worker import CAMPAIGNS, ROOM

from condiff.files import write_text

ROOT = Path(__file__).parents[2]
#: How many cases each campaign is to have, and how many are tried by one process.
WANTED = {"model": 10_000, "data": 10_000, "kill": 1_500, "input": 416, "label": 1_000}
CHUNK = 250
#: Seconds that a case may take, and a worker until its first case.
LIMIT, START = 30.0, 180.0


class Worker:
    """A process that tries cases, watched."""

    def __init__(self, name: str, start: int, stop: int) -> None:
        self.name, self.next, self.stop = name, start, stop
        self.counts: Counter[str] = Counter()
        self.findings: list[dict[str, Any]] = []

    def work(self) -> None:
        """Try all cases; one that ends its process or takes too long is a finding, and the rest goes on."""
        while self.next < self.stop:
            self._one_process()

    def _one_process(self) -> None:
        command = [sys.executable, "-m", "tests.robustness.worker", self.name, str(self.next), str(self.stop)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT), environment.get("PYTHONPATH", "")])
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=said, cwd=ROOT, env=environment, start_new_session=True
            )
            assert process.stdout is not None
            begun, limit, buffer = None, START, b""
            end = time.monotonic() + limit
            while self.next < self.stop:
                ready, _, _ = select.select([process.stdout], [], [], max(0.0, end - time.monotonic()))
                part = os.read(process.stdout.fileno(), 1 << 16) if ready else b""
                if not part:
                    break
                *lines, buffer = (buffer + part).split(b"\n")
                for line in map(json.loads, lines):
                    begun = line.get("begin", begun)
                    if "end" in line:
                        self._note(line)
                        begun = None
                    end = time.monotonic() + LIMIT
            hung = bool(self.next < self.stop and time.monotonic() >= end)
            with _no_process():
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
            process.stdout.close()
            if self.next < self.stop:
                said.seek(0)
                tail = said.read()[-500:].decode("utf-8", "replace")
                what = f"no end within {LIMIT:.0f} s" if hung else f"the process ended with {code}: {tail}"
                if begun is None and not hung:
                    raise SystemExit(f"the worker for {self.name} does not start: {tail}")
                self._note({"end": self.next, "outcome": "hang" if hung else "crash", "what": what, "where": ""})

    def _note(self, line: dict[str, Any]) -> None:
        self.next = line["end"] + 1
        self.counts[line["outcome"]] += 1
        if line["outcome"] in ("finding", "hang", "crash"):
            self.findings.append({"case": line["end"], **{key: line[key] for key in ("outcome", "what", "where")}})


class _no_process:
    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, ProcessLookupError)


class Record:
    """What has been tried, in a file that survives a stop."""

    def __init__(self, path: Path) -> None:
        self.path, self.lock = path, threading.Lock()
        self.chunks: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}

    def keep(self, worker: Worker, start: int, seconds: float) -> None:
        """Keep what one process has found."""
        with self.lock:
            self.chunks[f"{worker.name}-{start}"] = {
                "cases": worker.next - start,
                "counts": dict(worker.counts),
                "findings": worker.findings,
                "seconds": round(seconds, 1),
            }
            write_text(self.path, json.dumps(self.chunks, indent=1) + "\n")

    def gaps(self, name: str, cases: int) -> list[tuple[int, int]]:
        """What has not been tried of the first so many cases, in pieces for one process."""
        tried = {
            number
            for key, chunk in self.chunks.items()
            if key.rpartition("-")[0] == name
            for number in range(int(key.rpartition("-")[2]), int(key.rpartition("-")[2]) + chunk["cases"])
        }
        found: list[tuple[int, int]] = []
        for number in range(cases):
            if number in tried:
                continue
            if found and found[-1][1] == number and number - found[-1][0] < CHUNK:
                found[-1] = found[-1][0], number + 1
            else:
                found.append((number, number + 1))
        return found

    def summary(self) -> dict[str, Any]:
        """Counts by campaign."""
        found: dict[str, Any] = {}
        for key, chunk in sorted(self.chunks.items()):
            name = key.rpartition("-")[0]
            row = found.setdefault(
                name, {"group": CAMPAIGNS[name].group, "cases": 0, "counts": {}, "findings": [], "seconds": 0.0}
            )
            row["cases"] += chunk["cases"]
            row["seconds"] = round(row["seconds"] + chunk["seconds"], 1)
            row["findings"] += chunk["findings"]
            for outcome_, count in chunk["counts"].items():
                row["counts"][outcome_] = row["counts"].get(outcome_, 0) + count
        return found


def torture(out: Path, jobs: int, minutes: float, wanted: dict[str, int], *, again: bool = False) -> dict[str, Any]:
    """Try what has not been tried yet, for so many minutes at most; returns the counts of everything so far.

    With ``again``, what had findings counts as not tried.
    """
    record = Record(out / "cases.json")
    if again:
        record.chunks = {key: chunk for key, chunk in record.chunks.items() if not chunk["findings"]}
    todo = [(name, *chunk) for name, cases in wanted.items() for chunk in record.gaps(name, cases)]
    # Campaigns take turns, so that one that is stopped early has seen something of each.
    todo.sort(key=lambda each: each[1] / wanted[each[0]])
    end, lock = time.monotonic() + 60 * minutes, threading.Lock()

    def go() -> None:
        while time.monotonic() < end:
            with lock:
                if not todo:
                    return
                name, start, stop = todo.pop(0)
            began, worker = time.monotonic(), Worker(name, start, stop)
            worker.work()
            record.keep(worker, start, time.monotonic() - began)
            print(f"{name} {start} to {worker.stop - 1}: {dict(worker.counts)}", file=sys.stderr, flush=True)

    threads = [threading.Thread(target=go) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return record.summary()


def written(out: Path, found: dict[str, Any]) -> str:
    """The counts as a table, kept beside the cases."""
    heads = ("cases", "of", "read", "refused", "killed", "findings", "crashes", "hangs", "minutes of one core")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    remarks = []
    for name, row in found.items():
        counts = Counter(row["counts"])
        numbers = [counts[each] for each in ("read", "refused", "killed", "finding", "crash", "hang")]
        cells = [f"{row['cases']:,}", row["group"], *(f"{number:,}" for number in numbers)]
        lines.append(f"| {' | '.join(cells)} | {row['seconds'] / 60:.1f} |")
        for each in row["findings"]:
            said = " ".join(f"{each['what'][:150]} ({each['where'][:150]})".split())
            remarks.append(f"- {name} {each['case']}: {each['outcome']}, {said}")
    table = "\n".join([*lines, *([""] if remarks else []), *remarks[:50]])
    write_text(
        out / "README.md",
        "# Robustness\n\n"
        "What hostile and damaged files, kills and bad inputs did: written by `make torture`, see docs/security.md. A "
        f"case may take {LIMIT:.0f} s and {ROOM >> 30} GiB.\n\n{table}\n\n"
        "read: used as it is, or what is left of it; refused: one error of ours, in one line; killed: the process was, "
        "and what it had written before is whole. Findings would be exceptions of others, results that are half "
        "written or lost, and long messages.\n",
    )
    write_text(out / "counts.json", json.dumps(found, indent=1) + "\n")
    return table


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "robustness")
    parser.add_argument("--share", type=float, default=1.0, help="share of the cases that are wanted")
    parser.add_argument("--again", action="store_true", help="try again what had findings, once they are mended")
    parser.add_argument("--case", nargs=2, metavar=("CAMPAIGN", "NUMBER"), help="repeat one case")
    given = parser.parse_args()
    if given.case:
        with tempfile.TemporaryDirectory() as folder:
            campaign = CAMPAIGNS[given.case[0]]()
            campaign.prepare(Path(folder))
            (Path(folder) / "case").mkdir()
            print(campaign.run(int(given.case[1]), Path(folder) / "case"))
        return
    wanted = {name: round(given.share * cases) for name, cases in WANTED.items()}
    found = torture(given.out, given.jobs, given.minutes, wanted, again=given.again)
    print(written(given.out, found))
    short = [
        f"{found[name]['cases'] if name in found else 0} of {cases} {CAMPAIGNS[name].group}"
        for name, cases in wanted.items()
        if name not in found or found[name]["cases"] < cases
    ]
    if short:
        print(f"not finished ({', '.join(short)}): run it again to go on")
    if any(row["findings"] for row in found.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
