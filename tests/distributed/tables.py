"""Small tables in folders of Parquet files, and the fit of one process to compare with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import make_moons

from condiff import COINClassifier, COINRegressor, load
from condiff.encoders.encoding import EncodedTable
from condiff.readers.columns import as_columns


def make(n: int, seed: int = 0, labels: int = 30) -> tuple[pd.DataFrame, np.ndarray]:
    """Three classes in four numbers; some rows are equal, and each ``n // labels``-th has a label.

    There is no category: one-hot columns are linearly dependent, and trees split along the rounding of what is left.
    """
    random = np.random.default_rng(seed)
    truth = random.integers(0, 3, n)
    x = random.normal(size=(n, 4)) + 2.2 * np.eye(4)[truth]
    frame = pd.DataFrame({f"x{i}": x[:, i] for i in range(4)})
    same = np.arange(n)
    same[1:4] = 0
    frame, truth = frame.iloc[same].reset_index(drop=True), truth[same]
    shown = np.full(n, None, object)
    chosen = np.arange(4, n, max(1, n // labels))
    shown[chosen] = np.array(["a", "b", "c"], object)[truth[chosen]]
    frame["kind"] = shown
    return frame, truth


def moons(n: int, labels: int = 10) -> pd.DataFrame:
    """Two half circles, along which a diffusion carries labels; the first rows have one."""
    x, truth = make_moons(n, noise=0.1, random_state=0)
    kind = np.where(np.arange(n) < labels, np.array(["a", "b"], object)[truth], None)
    return pd.DataFrame({"x0": x[:, 0], "x1": x[:, 1], "kind": kind})


def write(frame: pd.DataFrame, folder: Path, files: int = 2, group: int = 60) -> Path:
    folder.mkdir(parents=True)
    for number, rows in enumerate(np.array_split(np.arange(len(frame)), files)):
        frame.iloc[rows].to_parquet(folder / f"rows-{number}.parquet", row_group_size=group, index=False)
    return folder


def alone(frame: pd.DataFrame, target: str, model: Path, **options: object) -> COINClassifier | COINRegressor:
    """The fit of one process, with the encoder of a model that was fitted on a cluster."""
    rows = EncodedTable(as_columns(frame.drop(columns=target)), load(model).encoder_)
    kind = COINRegressor if frame[target].dtype.kind == "f" else COINClassifier
    return kind(**{"base": "blend", "graph": "knn", **options}).fit(rows, frame[target].to_numpy())
