"""What the explorer shows: points in a plane, their graph, the network's answers, and the limits of a step."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits, make_circles, make_moons
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.manifold import TSNE

from condiff.diffusion import Certificate, diffuse_held
from condiff.diffusion.boundary import one_hot
from condiff.errors import InvalidInputError
from condiff.estimators import COINClassifier
from condiff.graph import Graph
from condiff.pages.canvas import class_colours
from condiff.readers.arrays import NpzArrays
from condiff.uncertainty import Inspection

Layout = Literal["auto", "pca", "tsne"]

MOST_POINTS = 20_000
MOST_CLASSES = 20
# Beyond this many points t-SNE takes minutes.
_TSNE_UP_TO = 3000
# Labels of a class in the examples: few enough that the network alone goes wrong somewhere.
_LABELS = {"moons": 1, "circles": 1, "digits": 2}


@dataclass(frozen=True, eq=False)
class Scene:
    """Everything that the page computes with, in the precision in which the page gets it.

    Attributes
    ----------
    name
        What it shows.
    positions
        (n, 2) places in the plane.
    weights
        Normalised, symmetric weights of the graph.
    base
        (n, c - 1) the network's output ``u(x, T-1)`` without its last column, which is what the others leave of 1.
    classes
        Names of the c classes.
    labels, truth
        Class codes that the network was trained on and, where it is known, of everything; -1 for none.
    names, pictures
        What the points are called, and what they look like, as addresses of data.
    rows
        Their rows in the table, from 0; of equal rows the first.
    layers, strength
        The diffusion that the network was trained with.
    certificate
        The graph's.
    """

    name: str
    positions: NDArray[np.float32]
    weights: sp.csr_array
    base: NDArray[np.float32]
    classes: tuple[str, ...]
    labels: NDArray[np.int16]
    truth: NDArray[np.int16] | None
    names: tuple[str, ...] | None
    layers: int
    strength: float
    certificate: Certificate
    pictures: tuple[str, ...] | None = None
    rows: tuple[int, ...] | None = None

    @property
    def n_points(self) -> int:
        """Number of points."""
        return len(self.positions)

    def u(self, layers: int, strength: float, held: Mapping[int, int] | None = None) -> NDArray[np.float64]:
        """The outputs after so many layers, with some points held at classes: what the page shows, computed here.

        Parameters
        ----------
        layers, strength
            The diffusion.
        held
            From a point to the code of the class that it is held at.
        """
        held = held or {}
        columns = torch.as_tensor(self.base, dtype=torch.float64)
        start = torch.cat([columns, 1.0 - columns.sum(dim=1, keepdim=True)], dim=1)
        nodes, codes = torch.tensor(list(held), dtype=torch.long), list(held.values())
        values = one_hot(codes, len(self.classes))
        graph = Graph(self.weights.astype(np.float64))
        return diffuse_held(start, graph, nodes, values, layers=layers, strength=strength).numpy()

    def to_dict(self) -> dict[str, Any]:
        """JSON values for the page; arrays are little-endian bytes in base64."""
        index = np.uint16 if self.n_points <= 1 << 16 else np.uint32
        return {
            "name": self.name,
            "points": self.n_points,
            "classes": list(self.classes),
            "colours": class_colours(len(self.classes)),
            "names": None if self.names is None else list(self.names),
            "pictures": None if self.pictures is None else list(self.pictures),
            "rows": None if self.rows is None else list(self.rows),
            "layers": self.layers,
            "strength": self.strength,
            "positivity": _finite(self.certificate.positivity_limit),
            "stability": _finite(self.certificate.stability_limit),
            "positions": _encoded(self.positions, np.float32),
            "indptr": _encoded(self.weights.indptr, np.uint32),
            "indices": _encoded(self.weights.indices, index),
            "weights": _encoded(self.weights.data, np.float32),
            "base": _encoded(self.base, np.float32),
            "labels": _encoded(self.labels, np.int16),
            "truth": None if self.truth is None else _encoded(self.truth, np.int16),
        }


def scene_of_model(
    model: COINClassifier,
    name: str,
    *,
    truth: Sequence[Any] | None = None,
    names: Sequence[str] | None = None,
    pictures: Sequence[str] | None = None,
    layout: Layout = "auto",
    positions: NDArray[Any] | None = None,
) -> Scene:
    """The scene of a fitted classifier.

    Parameters
    ----------
    model
        Fitted on points or on a graph.
    name
        What the page calls it.
    truth
        The true class code of every training row, where it is known, to count right answers.
    names, pictures
        What the training rows are called, and what they look like, as addresses of data.
    layout
        How points of more than two columns get into the plane: ``pca``, ``tsne``, or t-SNE up to 3,000 points.
    positions
        (rows, 2) places of the training rows instead.
    """
    if not isinstance(model, COINClassifier):
        raise InvalidInputError("the explorer shows classes; this model predicts values")
    found = Inspection(model)
    n, n_classes = model.graph_.n_nodes, len(model.classes_)
    if n > MOST_POINTS:
        raise InvalidInputError(f"the explorer shows up to {MOST_POINTS:,} points, not {n:,}: take a part of the rows")
    if n_classes > MOST_CLASSES:
        raise InvalidInputError(f"the explorer tells {MOST_CLASSES} classes apart, not {n_classes}")
    index = {label: code for code, label in enumerate(model.classes_.tolist())}
    labels = np.array([-1 if label is None else index[label] for label in found.label], dtype=np.int16)
    places = _places(found.points, layout) if positions is None else np.asarray(positions, dtype=np.float64)[found.row]
    return Scene(
        name=name,
        positions=places.astype(np.float32),
        weights=sp.csr_array(model.graph_.weights.astype(np.float32)),
        base=found.record.base[:, :-1].astype(np.float32),
        classes=tuple(map(str, model.classes_.tolist())),
        labels=labels,
        truth=None if truth is None else np.asarray(truth, dtype=np.int16)[found.row],
        names=None if names is None else tuple(names[row] for row in found.row.tolist()),
        layers=model.layers_,
        strength=model.strength_,
        certificate=model.certificate_,
        pictures=None if pictures is None else tuple(pictures[row] for row in found.row.tolist()),
        rows=tuple(found.row.tolist()),
    )


def example_scene(name: str, points: int = 600, *, layout: Layout = "auto", seed: int = 1) -> Scene:
    """Two moons, two circles or the digits, each with a label or two per class.

    Parameters
    ----------
    name
        One of :data:`EXAMPLES`.
    points
        Of moons and circles; there are 1,797 digits.
    layout
        As in :func:`scene_of_model`.
    seed
        Which points are labelled.
    """
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        title = "Handwritten digits"
    elif name == "moons":
        X, y = make_moons(points, noise=0.07, random_state=0)
        title = "Two moons"
    else:
        X, y = make_circles(points, noise=0.05, factor=0.5, random_state=0)
        title = "Two circles"
    generator = np.random.default_rng(seed)
    labels = np.full(len(y), -1)
    for code in np.unique(y):
        labels[generator.choice(np.flatnonzero(y == code), _LABELS[name], replace=False)] = code
    # Trained through a diffusion of middling length, the network alone still has something left to be put right.
    layers: Any = "auto" if name == "digits" else 300
    model = COINClassifier(base="residual", folds=0, layers=layers).fit(X, labels)
    names = [f"digit number {row + 1}" for row in range(len(y))] if name == "digits" else None
    if name != "digits":
        model.classes_ = np.array(["upper", "lower"] if name == "moons" else ["outer", "inner"])
    return scene_of_model(model, title, truth=y, names=names, layout=layout)


def table_scene(path: Path, target: str, *, layout: Layout = "auto", seed: int = 0) -> Scene:
    """A table or NPZ file of the user's, fitted as ``condiff fit`` does.

    An NPZ file may bring its own places in the plane as an array ``embedding`` of two columns.
    """
    from condiff.encoders.encoding import EncodedTable
    from condiff.encoders.table import TableEncoder, row_looks, row_names
    from condiff.readers.tables import read_table
    from condiff.readers.targets import encode_classes

    table = read_table(path)
    codes, classes = encode_classes(table.target(target), f"target column {target!r} of {path}")
    if len(classes) > MOST_CLASSES:
        raise InvalidInputError(f"the explorer tells {MOST_CLASSES} classes apart; {target!r} has {len(classes)}")
    encoder = TableEncoder(drop=[target])
    X = EncodedTable(table, encoder.fit(table)) if table.matrix is None else table.matrix
    model = COINClassifier(base="residual", random_state=seed).fit(X, codes)
    model.classes_ = np.array([str(label) for label in classes], dtype=object)
    looks = row_looks(table, encoder.columns_) if table.matrix is None else {}
    names = shown_names(row_names(table, table.id_column([target])), looks.get("texts"), looks.get("cells"))
    places = _embedding(path, table.n_rows) if path.suffix.lower() == ".npz" else None
    pictures = looks.get("pictures")
    return scene_of_model(model, path.name, names=names, pictures=pictures, layout=layout, positions=places)


def shown_names(ids: Any, texts: Any, cells: Any = None) -> list[str] | None:
    """What points are called: their ids, their texts, or both; numbers alone say nothing beside a text.

    Points without texts have their first cells behind their ids or numbers.
    """
    names = [str(name) for name in ids] if isinstance(ids, list) else None
    if isinstance(cells, list) and names is not None and not isinstance(texts, list):
        return [f"{name}: {cell}" if cell else name for name, cell in zip(names, map(str, cells), strict=False)]
    if not isinstance(texts, list):
        return names
    if names is None or names == [str(number) for number in range(1, len(names) + 1)]:
        return [str(text) or f"row {row + 1}" for row, text in enumerate(texts)]
    return [f"{name}: {text}" if text else name for name, text in zip(names, texts, strict=False)]


def plane(points: Any) -> NDArray[np.float64]:
    """The points' first two principal components; one column gets a second of zeros."""
    if points.shape[1] < 2 or points.shape[0] < 3:
        dense = points.toarray() if sp.issparse(points) else np.asarray(points)
        return np.concatenate([dense, np.zeros((len(dense), 2))], axis=1)[:, :2]
    if not sp.issparse(points) and points.shape[1] == 2:
        return np.asarray(points, dtype=np.float64)
    method = TruncatedSVD(2, random_state=0) if sp.issparse(points) else PCA(2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # points that are all the same have no variance to divide by
        return np.asarray(method.fit_transform(points), dtype=np.float64)


def _embedding(path: Path, n_rows: int) -> NDArray[np.float64] | None:
    with NpzArrays(path) as arrays:
        if "embedding" not in arrays:
            return None
        found = arrays["embedding"]
    if found.shape != (n_rows, 2) or found.dtype.kind not in "iuf" or not np.isfinite(found).all():
        raise InvalidInputError(
            f"the array 'embedding' of {path} must hold two finite numbers for each of the {n_rows} rows, "
            f"not {found.dtype} of shape {found.shape}"
        )
    return np.asarray(found, dtype=np.float64)


def _places(points: Any, layout: Layout) -> NDArray[np.float64]:
    n, width = points.shape
    chosen = ("tsne" if width > 2 and 30 < n <= _TSNE_UP_TO else "pca") if layout == "auto" else layout
    if chosen == "pca" or width <= 2:
        return plane(points)
    dense = points.toarray() if sp.issparse(points) else points
    perplexity = min(30.0, (n - 1) / 3)
    found = TSNE(2, init="pca", perplexity=perplexity, random_state=0, n_jobs=1).fit_transform(dense)
    return np.asarray(found, dtype=np.float64)


def _encoded(array: Any, kind: type[np.generic]) -> str:
    little = np.dtype(kind).newbyteorder("<")
    return base64.b64encode(np.ascontiguousarray(array, dtype=little).tobytes()).decode("ascii")


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
