"""Texts with classes: Banking77's customer questions and AG News."""

from __future__ import annotations

import csv
import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidFileError, InvalidInputError, did_you_mean
from condiff.reproduce.datasets.sources import fetch

#: The data sets, and the file of each that is measured on.
TEXTS = {"banking77": "banking77_test.csv", "ag_news": "ag_news_test.csv"}
# Items of AG News that are measured on; on the others, and on Banking77's training file, things may be tried out.
_POOL, _POOL_SEED = 3000, 5


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts and their classes.

    Attributes
    ----------
    texts, target
        One for each item; class codes from 0.
    classes
        Their names.
    """

    texts: tuple[str, ...]
    target: NDArray[np.int64]
    classes: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits of the content."""
        lines = [f"{code} {text}" for code, text in zip(self.target.tolist(), self.texts, strict=True)]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def load_texts(name: str) -> Texts:
    """A data set by its name: Banking77's 3,080 test questions, or 3,000 items of AG News."""
    if name not in TEXTS:
        raise InvalidInputError(f"unknown texts {name!r}{did_you_mean(name, TEXTS)}: known are {', '.join(TEXTS)}")
    paths = {path.name: path for path in fetch(name)}
    rows = _rows(paths[TEXTS[name]])
    if name == "banking77":
        return _texts([text for text, _ in rows[1:]], [kind for _, kind in rows[1:]])
    classes = paths["ag_news_classes.txt"].read_text(encoding="utf-8").split("\n")
    chosen = np.sort(np.random.default_rng(_POOL_SEED).permutation(len(rows))[:_POOL]).tolist()
    items = [rows[place] for place in chosen]
    return _texts([f"{title}. {text}" for _, title, text in items], [classes[int(row[0]) - 1] for row in items])


def _texts(texts: list[str], kinds: list[str]) -> Texts:
    classes = sorted(set(kinds))
    codes = {kind: code for code, kind in enumerate(classes)}
    return Texts(tuple(text.strip() for text in texts), np.array([codes[kind] for kind in kinds]), tuple(classes))


def _rows(path: Path) -> list[list[str]]:
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            return list(csv.reader(stream, strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidFileError(f"{path} cannot be read as CSV in UTF-8 ({error})") from error
