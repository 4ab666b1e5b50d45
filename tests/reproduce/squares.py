"""A job whose result is known, and that leaves a mark each time it runs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from condiff.reproduce.runs import Key, Run


@dataclass(frozen=True)
class Square:
    """Squares a number; each run adds a letter to a file that bears the number and the process."""

    number: int
    marks: str
    fails: bool = False

    @property
    def key(self) -> Key:
        return Key("test", "numbers", "square", {}, self.number, 0)

    def run(self) -> Run:
        with Path(self.marks, f"{self.number}-{os.getpid()}").open("a") as stream:
            stream.write("x")
        if self.fails:
            raise ArithmeticError(f"{self.number} is bad")
        return self.key.run({"accuracy": float(self.number**2)}, epochs=1, seconds=0.0, memory_mb=0.0)


def times_run(marks: Path, number: int) -> int:
    return sum(len(path.read_text()) for path in marks.glob(f"{number}-*"))
