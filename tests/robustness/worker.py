"""One process that tries many cases, with a limit on its memory: python -m tests.robustness.worker CAMPAIGN START STOP.

It prints a line before and after every case, so that whoever started it knows which one it died of.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

from tests.robustness.campaigns import Campaign, Data, Models
from tests.robustness.inputs import Inputs
from tests.robustness.kills import Kills
from tests.robustness.labels import Labels

CAMPAIGNS: dict[str, type[Campaign]] = {kind.name: kind for kind in (Models, Data, Kills, Inputs, Labels)}
#: Bytes that a case may take beyond what the process had when it was ready.
ROOM = 2 << 30


def main(name: str, start: int, stop: int) -> None:
    """Try cases ``start`` to ``stop`` of a campaign."""
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the library prints is none of the protocol
    scratch = Path(tempfile.mkdtemp(prefix="torture-"))
    os.environ |= {"CONDIFF_CACHE": str(scratch / "cache"), "HF_HUB_OFFLINE": "1"}
    try:
        campaign = CAMPAIGNS[name]()
        (scratch / "made").mkdir()
        campaign.prepare(scratch / "made")
        campaign.run(start, _new(scratch / "case"))  # what is imported late is imported now
        ready = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (ready + ROOM, ready + ROOM))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for number in range(start, stop):
            print(json.dumps({"begin": number}), file=told, flush=True)
            print(json.dumps({"end": number, **outcome(campaign, number, scratch / "case")}), file=told, flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def outcome(campaign: Campaign, number: int, folder: Path) -> dict[str, str]:
    """How one case ended; an exception that should not have come is a finding."""
    try:
        return {"outcome": campaign.run(number, _new(folder))}
    except MemoryError:
        return {"outcome": "finding", "what": "MemoryError", "where": _where()}
    except Exception as error:
        return {"outcome": "finding", "what": f"{type(error).__name__}: {str(error)[:300]}", "where": _where()}


def _where() -> str:
    """The last lines of ours and of others in a traceback."""
    frames = traceback.extract_tb(sys.exc_info()[2])
    return " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[::-1][:6])


def _new(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
