"""What embeddings of texts and of images share: each is computed once and kept, and how progress is shown."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from condiff.files import cache_folder

Vectors: TypeAlias = NDArray[np.float32]

#: Called with how many are done, and how many there are.
Progress: TypeAlias = Callable[[int, int], None]
#: Opens a display of progress with a label.
Display: TypeAlias = Callable[[str], contextlib.AbstractContextManager[Progress]]

# Rows that show which direction is the strongest.
_SOME = 1500
# Not a parameter: a fitted encoder is saved and loaded, and whoever transforms decides what is shown.
_display: ContextVar[Display | None] = ContextVar("display", default=None)


@contextlib.contextmanager
def progress_shown(display: Display) -> Iterator[None]:
    """Show the progress of whatever is embedded meanwhile."""
    token = _display.set(display)
    try:
        yield
    finally:
        _display.reset(token)


@contextlib.contextmanager
def progress(label: str) -> Iterator[Progress]:
    """What to call as work goes on; nothing is shown unless somebody asked for it."""
    display = _display.get()
    if display is None:
        yield lambda done, total: None
        return
    with display(label) as shown:
        yield shown


def on_sphere(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Rows of length one; rows of zeros stay."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: NDArray[np.float64] = rows / np.where(length > 0, length, 1.0)
    return unit


def windows(tokens: int, most: int) -> list[tuple[int, int]]:
    """Where to cut: as few pieces as there must be, of nearly the same length; a last one of a word says little."""
    ends = np.linspace(0, tokens, max(1, -(-tokens // most)) + 1).round().astype(int).tolist()
    return list(pairwise(ends))


def strongest_variance(rows: Any) -> float:
    """The variance of rows, dense or CSR, in the direction in which it is largest; as far as some of them show."""
    some = rows[np.sort(np.random.default_rng(0).permutation(rows.shape[0])[:_SOME])]
    products = some @ some.T
    gram = np.asarray(products if isinstance(products, np.ndarray) else products.toarray(), dtype=np.float64)
    gram = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
    # Rows that are all alike have no direction.
    return max(float(np.linalg.eigvalsh(gram)[-1]) / len(gram), 1e-3)


def cached_vectors(
    name: str, digests: Sequence[bytes], compute: Callable[[list[int]], Iterable[tuple[Sequence[int], Vectors]]]
) -> Vectors:
    """One vector for each digest, from the cache where it is there.

    Parameters
    ----------
    name
        Of the file in the cache; it says what made the vectors.
    digests
        Of the contents. Equal ones are computed once.
    compute
        Called with the places of those that are missing; yields some places at a time and their vectors, which are
        kept at once, so that work that was stopped goes on where it was.
    """
    first = {digest: place for place, digest in reversed(list(enumerate(digests)))}
    with _Store(cache_folder() / "features" / f"{name}.sqlite") as store:
        found = store.find(list(first))
        missing = sorted(place for digest, place in first.items() if digest not in found)
        for places, rows in compute(missing) if missing else ():
            new = {digests[place]: row for place, row in zip(places, rows, strict=True)}
            store.add(new)
            found |= new
    return np.array([found[digest] for digest in digests], dtype=np.float32)


class _Store:
    """Vectors by digests in one SQLite file; where that cannot be written, for the moment only."""

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self.connection = _opened(path)
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError:  # damaged: it is only a cache
                path.unlink()
                self.connection = _opened(path)
        except (OSError, sqlite3.Error):
            self.connection = _opened(":memory:")

    def __enter__(self) -> _Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def find(self, digests: Iterable[bytes]) -> dict[bytes, Vectors]:
        found = {}
        for digest in digests:
            row = self.connection.execute("SELECT vector FROM vectors WHERE digest = ?", (digest,)).fetchone()
            if row is not None:
                found[digest] = np.frombuffer(row[0], dtype="<f4")
        return found

    def add(self, vectors: dict[bytes, Vectors]) -> None:
        rows = [(digest, vector.astype("<f4").tobytes()) for digest, vector in vectors.items()]
        with self.connection:
            self.connection.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)


def _opened(path: Path | str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=60)
    connection.execute("CREATE TABLE IF NOT EXISTS vectors (digest BLOB PRIMARY KEY, vector BLOB)")
    return connection
