"""Workers and schedulers that are killed in the middle of a fit; all are processes on loopback."""

import threading
import time

import numpy as np
import pyarrow.parquet as pq
import pytest

pytest.importorskip("distributed")
pytest.importorskip("faiss")

from tests.distributed.tables import make, write
from tests.reproduce.dask_cluster import running

from condiff.distributed.crew import ClusterLostError
from condiff.distributed.tables import Sizes, fit_table
from distributed import Client

SIZES = Sizes(part_rows=5000, block_rows=4000, pilot_rows=3000)
BLEND = {"base": "blend", "layers": 4}
STAGES = ("gather", "encode", "sort", "collect", "base", "neighbours", "join", "normalise", "layer-0002", "answers")


def when_begun(work, stage, act):
    """Do something once the first item of a stage is finished."""

    def watch():
        deadline = time.monotonic() + 300
        while not list((work / "marks" / stage).glob("*.json")) and time.monotonic() < deadline:
            time.sleep(0.005)
        act()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def answers(model):
    return pq.read_table(model / "answers").to_pandas().filter(like="p_").to_numpy()


@pytest.mark.slow
def test_killed_workers_and_a_lost_scheduler_change_nothing(tmp_path):
    source = write(make(20_000, labels=60)[0], tmp_path / "source", 4, 2500)
    model = tmp_path / "model"
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
        whole = fit_table(source, "kind", model, cluster=client, sizes=SIZES, **BLEND)
    (tmp_path / "cluster").mkdir()
    with running(tmp_path / "cluster") as cluster:
        workers = [cluster.add_worker(), cluster.add_worker()]

        def replace():
            workers.pop(0).kill()
            workers.append(cluster.add_worker())

        threads = [when_begun(tmp_path / "other.work", stage, replace) for stage in STAGES]
        found = fit_table(source, "kind", tmp_path / "other", cluster=cluster.address, sizes=SIZES, **BLEND)
        for thread in threads:
            thread.join()
        assert np.array_equal(answers(found.model), answers(whole.model))
        thread = when_begun(tmp_path / "third.work", "collect", cluster.processes[0].kill)
        with pytest.raises(ClusterLostError, match=r"the scheduler is gone.*the same command continues there"):
            fit_table(source, "kind", tmp_path / "third", cluster=cluster.address, sizes=SIZES, **BLEND)
        thread.join()
    said = []
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
        found = fit_table(source, "kind", tmp_path / "third", cluster=client, sizes=SIZES, report=said.append, **BLEND)
    assert said[0].startswith("continuing in ") and not any(line.startswith(("gather", "encode")) for line in said)
    assert np.array_equal(answers(found.model), answers(whole.model))
