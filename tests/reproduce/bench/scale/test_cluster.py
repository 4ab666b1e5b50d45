"""condiff bench cluster: rows in files, and results that are not measured twice."""

import json
import subprocess
import sys

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


def test_one_worker_is_killed_in_every_stage(tmp_path):
    sleepers = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) for _ in range(2)]

    class Client:
        def run(self, function, on_error):
            return {one.pid: one.pid for one in sleepers if one.poll() is None}

    marks = tmp_path / "model.work/marks"
    with cluster._killer(Client(), tmp_path / "model", True) as killed:
        for stage, one in zip(("encode", "sort"), sorted(sleepers, key=lambda each: each.pid), strict=True):
            (marks / stage).mkdir(parents=True)
            (marks / stage / "000000.json").touch()
            assert one.wait(30) == -9
    assert killed == ["encode", "sort"]
