"""The journal of labels: its writer killed at any moment, its file damaged; nothing acknowledged is lost."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

from tests.robustness import mutations as change
from tests.robustness.campaigns import Campaign, Finding, refused
from tests.robustness.kills import in_child

_ROWS = 50
_ABOUT = {"rows": "of a campaign"}


class Labels(Campaign):
    """Odd numbers kill a writer, even ones damage what it wrote."""

    name, group = "label", "journals of labels"

    def prepare(self, folder: Path) -> None:
        from condiff.labelling.journal import Journal

        journal = Journal(folder / "good", _ABOUT, _ROWS)
        self._say(journal, Random(0), 30)
        journal.close()
        self.good = (folder / "good").read_bytes()

    def run(self, number: int, folder: Path) -> str:
        random = self.random(number)
        return self._killed(random, folder) if number % 2 else self._damaged(random, folder / "labels")

    def _say(self, journal: Any, random: Random, decisions: int, acknowledge: int | None = None) -> None:
        for _ in range(decisions):
            if random.random() < 0.2:
                found = journal.undo("me")
            else:
                kind = random.choice(("label", "label", "skip", "unsure", "none"))
                label = random.choice(("cat", "dög", "=cmd", "\u2028")) if kind == "label" else ""
                found = journal.write(random.randrange(_ROWS), kind, label, "me")
            if found is not None and acknowledge is not None:
                os.write(acknowledge, b"%d %d\n" % (found.number, found.row))

    def _killed(self, random: Random, folder: Path) -> str:
        from condiff.labelling.journal import Journal

        path, heard = folder / "labels", folder / "acknowledged"
        for _ in range(2):  # the second goes on with what the first has left

            def write() -> None:
                journal = Journal(path, _ABOUT, _ROWS)
                self._say(journal, random, 400, os.open(heard, os.O_WRONLY | os.O_CREAT | os.O_APPEND))

            ended = in_child(write, random.random() * 0.1)
        journal = Journal(path, _ABOUT, _ROWS)
        on_disk = {(each.number, each.row) for each in journal.decisions}
        journal.close()
        said = heard.read_bytes().split(b"\n")[:-1] if heard.exists() else []
        lost = [line for line in said if tuple(map(int, line.split())) not in on_disk]
        if lost:
            raise Finding(f"{len(lost)} acknowledged decisions were lost")
        return "killed" if ended else "read"

    def _damaged(self, random: Random, path: Path) -> str:
        from condiff.labelling.journal import Journal

        path.write_bytes(random.choice((change.bytes_of, change.text_of))(random, self.good))
        try:
            journal = Journal(path, _ABOUT, _ROWS)
        except Exception as error:
            return refused(error)
        before = len(journal.decisions)
        journal.write(0, "label", "cat", "me")
        journal.close()
        again = Journal(path, _ABOUT, _ROWS)
        again.close()
        if len(again.decisions) != before + 1:
            raise Finding("a decision after damage was lost")
        return "read"
