"""condiff bench cluster: rows in files, and results that are not measured twice."""

import json

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("distributed")

import pyarrow.parquet as pq

from condiff.reproduce.bench.scale import cluster, make_points


def test_points_lie_in_files_with_empty_targets(tmp_path):
    points = make_points(2500, features=32)
    table = pq.read_table(cluster.write_parquet(points, tmp_path / "rows")).to_pandas()
    assert np.array_equal(table.drop(columns="kind").to_numpy(), points.x) and points.x.shape == (2500, 32)
    assert np.array_equal(table["kind"].fillna(-1), points.shown)
    assert 0.9 < points.best_accuracy < 1


def test_what_the_file_holds_is_not_run_again(tmp_path, monkeypatch):
    ran = []

    def measured(size, workers, memory, base, kill, report):
        ran.append((size, workers, kill))
        return {"accuracy": 0.9}

    monkeypatch.setattr(cluster, "_measured", measured)
    shared = {"memory": "1GB", "base": "auto", "command": "condiff bench cluster", "report": print}
    out = tmp_path / "cluster.json"
    cluster.run_cluster(out, rows=[2000], workers=[1], kill=False, **shared)
    cluster.run_cluster(out, rows=[2000, 1_000_000], workers=[1, 2], kill=False, **shared)
    found = cluster.run_cluster(out, rows=[2000], workers=[2], kill=True, **shared)
    sizes = [(2000, 0), (2000, 1), (2000, 2), (1_000_000, 1), (1_000_000, 2)]
    assert ran == [(*size, False) for size in sizes] + [(2000, 2, True)]
    assert len(json.loads(out.read_text())) == 6 and [row["kill"] for row in found] == [True]
