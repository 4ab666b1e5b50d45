"""``condiff reproduce --cluster``: the store of a sweep on real Dask workers is the one of this machine's processes."""

import sqlite3

import pytest

pytest.importorskip("distributed")

from tests.reproduce.dask_cluster import running

QUICK = ("--splits", 2, "--inits", 2, "--set", "training.epochs=5", "--train-per-class", 3, "--validation-per-class", 4)


def test_a_cluster_gives_the_same_store(condiff, village, tmp_path):
    found = []
    with running(tmp_path) as cluster:
        cluster.add_worker()
        for where in (("--jobs", 1), ("--cluster", cluster.address)):
            out = tmp_path / where[0]
            done = condiff("reproduce", village, *QUICK, *where, "--out", out, "--no-pictures")
            assert done.code == 0, done.err
            connection = sqlite3.connect(out / "runs.sqlite")
            found.append(connection.execute("SELECT key, metrics, epochs FROM runs ORDER BY key").fetchall())
            connection.close()
    assert len(found[0]) == 4
    assert found[0] == found[1]


def test_jobs_and_a_cluster_are_one_too_many(condiff, village):
    condiff("reproduce", village, "--jobs", 2, "--cluster", "tcp://127.0.0.1:9").assert_failed("--jobs is for")
