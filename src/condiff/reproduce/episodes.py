"""Few-shot tasks: which classes, which labelled images, which queries; to be drawn, exported and imported.

A task depends on the features' fingerprint, the sizes, the seed and its number, and on nothing else.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from condiff.errors import InvalidFileError, InvalidInputError
from condiff.files import read_json, refusing, write_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FORMAT = "condiff episodes 1"
_PARTS = ("classes", "support", "query")
#: Draws of unbalanced queries that need more images than a class has, before we give up.
_MOST_DRAWS = 1000


class Labelled(Protocol):
    """What tasks are drawn from: features or images, the class of each, and a fingerprint of all of it."""

    @property
    def name(self) -> str: ...

    @property
    def labels(self) -> NDArray[np.int64]: ...

    @property
    def classes(self) -> tuple[str, ...]: ...

    @property
    def fingerprint(self) -> str: ...


@dataclass(frozen=True)
class Sizes:
    """The shape of a task.

    Attributes
    ----------
    ways
        Classes.
    shots
        Labelled images of each.
    queries
        Images to classify, per class on average.
    concentration
        None: the same number of queries for every class. A number: the classes' shares are drawn from the symmetric
        Dirichlet distribution with this parameter, as Veilleux, Boudiaf, Piantanida and Ben Ayed (2021) do with 2.
    """

    ways: int = 5
    shots: int = 1
    queries: int = 15
    concentration: float | None = None

    def __post_init__(self) -> None:
        for name, least in (("ways", 2), ("shots", 1), ("queries", 1)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise InvalidInputError(f"{name} must be a whole number of at least {least}, not {value!r}")
        if self.concentration is not None and not 0 < self.concentration < float("inf"):
            raise InvalidInputError(f"the concentration must be positive and finite, not {self.concentration!r}")


@dataclass(frozen=True, eq=False)
class Episodes:
    """Tasks of one shape, as numbers of images: one row per task.

    Attributes
    ----------
    sizes
        Their shape.
    classes
        (tasks, ways): the class behind a task's class 0, the one behind its class 1, and so on.
    support
        (tasks, ways * shots), the images of class 0 first.
    query
        (tasks, ways * queries), in random order; none is in the support.
    """

    sizes: Sizes
    classes: NDArray[np.int64]
    support: NDArray[np.int64]
    query: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.classes)

    @cached_property
    def hash(self) -> str:
        """The first 16 hexadecimal digits of a SHA-256 over everything."""
        digest = hashlib.sha256(json.dumps(asdict(self.sizes), sort_keys=True).encode())
        for name in _PARTS:
            digest.update(np.ascontiguousarray(getattr(self, name), dtype="<i8").tobytes())
        return digest.hexdigest()[:16]

    def block(self, start: int, stop: int) -> Episodes:
        """Some of them."""
        return Episodes(self.sizes, *(getattr(self, name)[start:stop] for name in _PARTS))

    @property
    def support_labels(self) -> NDArray[np.int64]:
        """(ways * shots,), the same in all tasks."""
        return np.repeat(np.arange(self.sizes.ways), self.sizes.shots)

    def query_labels(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """The truth, (tasks, ways * queries), as a task calls its classes; ``labels`` are those of all images."""
        matches = labels[self.query][:, :, None] == self.classes[:, None, :]
        found: NDArray[np.int64] = matches.argmax(-1)
        return found


def draw_episodes(features: Labelled, sizes: Sizes, tasks: int, *, seed: int = 0, first: int = 0) -> Episodes:
    """Draw ``tasks`` tasks, numbered from ``first``; a task is the same whatever is drawn with it."""
    counts = np.bincount(features.labels, minlength=len(features.classes))
    members = np.split(np.argsort(features.labels, kind="stable"), np.cumsum(counts)[:-1])
    _check_room(features, members, sizes)
    identity = hashlib.sha256(f"{features.fingerprint} {json.dumps(asdict(sizes), sort_keys=True)}".encode()).digest()
    drawn = []
    for task in range(first, first + tasks):
        source = np.random.SeedSequence([*identity, seed, task])
        drawn.append(_draw(np.random.Generator(np.random.PCG64(source)), members, sizes))
    classes, support, query = (np.stack(part) for part in zip(*drawn, strict=True))
    return Episodes(sizes, classes, support, query)


def unbalanced_counts(generator: np.random.Generator, sizes: Sizes) -> NDArray[np.int64]:
    """How many queries each class has: a Dirichlet draw times all queries, rounded so that their sum is kept."""
    assert sizes.concentration is not None
    total = sizes.ways * sizes.queries
    shares = total * generator.dirichlet(np.full(sizes.ways, sizes.concentration))
    counts = np.floor(shares).astype(np.int64)
    # What is left by the floors goes to the largest remainders: rounding to the nearest with the sum kept.
    counts[np.argsort(counts - shares, kind="stable")[: total - counts.sum()]] += 1
    return counts


def _draw(
    generator: np.random.Generator, members: list[NDArray[np.int64]], sizes: Sizes
) -> tuple[NDArray[np.int64], ...]:
    classes = generator.permutation(len(members))[: sizes.ways]
    room = np.array([len(members[label]) - sizes.shots for label in classes])
    counts = np.full(sizes.ways, sizes.queries)
    if sizes.concentration is not None:
        for _ in range(_MOST_DRAWS):
            counts = unbalanced_counts(generator, sizes)
            if (counts <= room).all():
                break
        else:
            raise InvalidInputError(
                f"classes with {room.min() + sizes.shots} images are too small for {sizes.ways * sizes.queries} "
                "unbalanced queries: ask for fewer queries"
            )
    support, query = [], []
    for label, count in zip(classes, counts, strict=True):
        chosen = generator.permutation(members[label])[: sizes.shots + count]
        support.append(chosen[: sizes.shots])
        query.append(chosen[sizes.shots :])
    return classes, np.concatenate(support), generator.permutation(np.concatenate(query))


def _check_room(features: Labelled, members: list[NDArray[np.int64]], sizes: Sizes) -> None:
    if len(members) < sizes.ways:
        raise InvalidInputError(f"{features.name} has {len(members)} classes, too few for {sizes.ways} ways")
    least = sizes.shots + (sizes.queries if sizes.concentration is None else 1)
    for label, images in enumerate(members):
        if len(images) < least:
            raise InvalidInputError(
                f"class {features.classes[label]!r} of {features.name} has {len(images)} images, but a task takes at "
                f"least {least} of a class: ask for fewer shots or queries"
            )


def write_episodes(path: Path | str, episodes: Episodes, features: Labelled) -> None:
    """Write the tasks as JSON, with a fingerprint of the features that they belong to."""
    content = {
        "format": _FORMAT,
        "name": features.name,
        "features": features.fingerprint,
        "sizes": asdict(episodes.sizes),
        "hash": episodes.hash,
        **{name: getattr(episodes, name).tolist() for name in _PARTS},
    }
    write_text(Path(path), json.dumps(content, separators=(",", ":")) + "\n")


def read_episodes(path: Path | str, features: Labelled) -> Episodes:
    """Read what :func:`write_episodes` wrote, checked against the features."""
    with refusing(path, "a readable file of tasks", "export them again"):
        content = read_json(Path(path), "export them again")
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise InvalidFileError(f"{path} has no tasks of this version ({_FORMAT!r}): export them again")
    if content.get("features") != features.fingerprint:
        raise InvalidFileError(
            f"{path} has tasks of {content.get('name')!r}, fingerprint {content.get('features')}, not of "
            f"{features.name!r}, fingerprint {features.fingerprint}: export them again"
        )
    try:
        sizes = Sizes(**content["sizes"])
    except (KeyError, TypeError, InvalidInputError) as error:
        raise InvalidFileError(f"{path}: the sizes of its tasks are invalid ({error}): export them again") from error
    widths = {"classes": sizes.ways, "support": sizes.ways * sizes.shots, "query": sizes.ways * sizes.queries}
    limits = {"classes": len(features.classes), "support": len(features.labels), "query": len(features.labels)}
    parts = [_numbers(path, name, content.get(name), widths[name], limits[name]) for name in _PARTS]
    episodes = Episodes(sizes, *parts)
    _check(path, episodes, features.labels)
    if episodes.hash != content.get("hash"):
        raise InvalidFileError(f"{path} was changed: its hash is {episodes.hash}, not {content.get('hash')}")
    return episodes


def _numbers(path: Path | str, name: str, rows: Any, width: int, limit: int) -> NDArray[np.int64]:
    sound = isinstance(rows, list) and rows and all(isinstance(row, list) and len(row) == width for row in rows)
    if not sound or not all(type(number) is int and 0 <= number < limit for row in rows for number in row):
        raise InvalidFileError(f"{path}: {name} must have {width} whole numbers in 0 .. {limit - 1} for each task")
    return np.array(rows, dtype=np.int64)


def _check(path: Path | str, episodes: Episodes, labels: NDArray[np.int64]) -> None:
    if not len(episodes.classes) == len(episodes.support) == len(episodes.query):
        raise InvalidFileError(f"{path}: classes, support and query must have the same number of tasks")
    for task, (classes, support, query) in enumerate(
        zip(episodes.classes, episodes.support, episodes.query, strict=True)
    ):
        where = f"{path}, task {task}"
        if len(np.unique(classes)) < len(classes):
            raise InvalidFileError(f"{where} has a class twice")
        images = np.concatenate([support, query])
        if len(np.unique(images)) < len(images):
            raise InvalidFileError(f"{where} has an image twice: no image may be both labelled and a query")
        if not np.array_equal(labels[support], np.repeat(classes, episodes.sizes.shots)):
            raise InvalidFileError(
                f"{where}: the support must have {episodes.sizes.shots} of each class, in their order"
            )
        if not np.isin(labels[query], classes).all():
            raise InvalidFileError(f"{where} has a query of none of its classes")
        if episodes.sizes.concentration is None:
            counts = np.bincount(labels[query], minlength=int(classes.max()) + 1)[classes]
            if (counts != episodes.sizes.queries).any():
                raise InvalidFileError(f"{where} is called balanced, but its classes have other numbers of queries")
