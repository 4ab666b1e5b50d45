"""The command line: in this process where one rank does, and as real torchrun jobs on loopback."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from tests.distributed.problems import problem
from tests.distributed.ranks import run
from typer.testing import CliRunner

from condiff.cli import distributed as program
from condiff.distributed import Fit, Network, fit, gather_output
from condiff.errors import InvalidInputError
from condiff.training import Training

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node"]


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.delenv("RANK", raising=False)
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def arrays(tmp_path):
    """The files of a problem, as options."""
    made = problem()
    entries = made.graph.weights.tocoo()
    rows, columns = entries.coords
    above = rows < columns
    files = {
        "edges": np.stack([rows, columns])[:, above],
        "weights": entries.data[above],
        "features": made.x,
        "labels": made.classes,
        "train": made.train,
        "validation": made.validation,
    }
    options = []
    for name, array in files.items():
        np.save(tmp_path / f"{name}.npy", array)
        options += [f"--{name}", str(tmp_path / f"{name}.npy")]
    return options


def fit_for(ranks, shards, folder, settings):
    fit(shards, folder, settings, ranks=ranks)


def call(*arguments):
    result = CliRunner().invoke(program.app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def launch(ranks, *arguments, **options):
    """A torchrun job of its own, which finds a free port by itself."""
    command = [*TORCHRUN, str(ranks), "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    command += ["-m", "condiff.distributed", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **options
    )


def finish(job):
    out, errors = job.communicate(timeout=600)
    assert job.returncode == 0, errors
    return out


def test_shard_fit_and_predict_alone(tmp_path, arrays):
    told = call("shard", tmp_path / "shards", "--ranks", 1, *arrays)
    assert "400 nodes" in told and "part 0: 400 nodes" in told
    report = json.loads(call("fit", tmp_path / "shards", tmp_path / "fit", "--epochs", 3, "--layers", 4, "--json"))
    assert report["epochs"] == 3
    assert report["ranks"][0]["rows"] == 0
    again = json.loads(call("predict", tmp_path / "shards", tmp_path / "fit", tmp_path / "out", "--json"))
    assert again["accuracy"] == report["accuracy"]
    assert gather_output(tmp_path / "out").shape == (400, 3)


def test_parts_of_ones_own_and_json(tmp_path, arrays):
    np.save(tmp_path / "parts.npy", np.arange(400) % 2)
    told = json.loads(
        call("shard", tmp_path / "s", "--ranks", 2, "--partition", tmp_path / "parts.npy", "--json", *arrays)
    )
    assert told["method"] == "given"
    assert [part["nodes"] for part in told["parts"]] == [200, 200]


def test_all_labelled_nodes_train_by_default(tmp_path, arrays):
    options = arrays[: arrays.index("--train")] + arrays[arrays.index("--validation") :]
    told = json.loads(call("shard", tmp_path / "s", "--ranks", 2, "--json", *options))
    assert (told["n_train"], told["n_validation"]) == (400 - 45, 45)


def test_a_citation_graph_by_name(tmp_path, data_root):
    assert "2708 nodes" in call("shard", tmp_path / "s", "--ranks", 2, "--graph", "cora")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--graph", "cora", "--edges", "e.npy"], "either --graph, or --edges"),
        ([], "either --graph, or --edges"),
        (["--edges", "e.npy"], "--features and --labels"),
        (["--graph", "cora", "--labels", "y.npy"], "brings its own --labels"),
    ],
)
def test_wrong_combinations_are_refused(tmp_path, options, message):
    with pytest.raises(InvalidInputError, match=message):
        call("shard", tmp_path / "s", "--ranks", 2, *options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--strength", "x"], "--strength must be a number"),
        (["--hidden", "1.5"], "--hidden must be a whole number"),
        (["--dtype", "int8"], "dtype"),
        (["--timeout", "0"], "timeout"),
    ],
)
def test_wrong_settings_are_refused(tmp_path, options, message):
    with pytest.raises(InvalidInputError, match=message):
        call("fit", tmp_path / "s", tmp_path / "f", *options)


def test_shards_are_cut_by_one_process(tmp_path, monkeypatch, arrays):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InvalidInputError, match="start it with python"):
        call("shard", tmp_path / "s", "--ranks", 2, *arrays)


def test_errors_are_one_line_and_exit_code_2(tmp_path):
    command = [sys.executable, "-m", "condiff.distributed", "fit", tmp_path / "none", tmp_path / "fit"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        f"condiff.distributed: error: {tmp_path / 'none'} has no shards.json: write the shards with 'shard' first\n"
    )


@pytest.mark.slow
def test_torchrun_with_2_and_4_ranks_agrees_with_one(tmp_path, arrays):
    reports, outputs = {}, {}
    for ranks in (1, 2, 4):
        shards, folder, out = (tmp_path / f"{name}{ranks}" for name in ("shards", "fit", "out"))
        call("shard", shards, "--ranks", ranks, *arrays)
        fitting, predicting = ("fit", shards, folder, "--epochs", 10, "--json"), ("predict", shards, folder, out)
        reports[ranks] = json.loads(call(*fitting) if ranks == 1 else finish(launch(ranks, *fitting)))
        call(*predicting) if ranks == 1 else finish(launch(ranks, *predicting))
        outputs[ranks] = gather_output(out)
    for ranks in (2, 4):
        assert np.abs(outputs[ranks] - outputs[1]).max() < 1e-5
        assert reports[ranks]["accuracy"] == reports[1]["accuracy"]
        assert len(reports[ranks]["ranks"]) == ranks
        assert all(used["payload"] > 0 for used in reports[ranks]["ranks"])


@pytest.mark.slow
def test_kill_9_of_a_rank_ends_the_job_and_a_restart_ends_in_the_same_answer(tmp_path, arrays):
    psutil = pytest.importorskip("psutil")
    call("shard", tmp_path / "shards", "--ranks", 2, *arrays)
    options = ["--epochs", 300, "--patience", 300, "--layers", 3, "--checkpoint-every", 5]
    job = launch(2, "fit", tmp_path / "shards", tmp_path / "fit", *options)
    record = tmp_path / "fit" / "fit.json"
    deadline = time.monotonic() + 600
    while not record.exists():
        assert job.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)
    psutil.Process(job.pid).children()[1].kill()
    _, errors = job.communicate(timeout=600)
    assert job.returncode != 0
    assert f"resumes from the last checkpoint in {tmp_path / 'fit'}" in errors
    assert len(json.loads(record.read_text())["losses"]) < 300
    finish(launch(2, "fit", tmp_path / "shards", tmp_path / "fit", *options))
    asked = Fit(Network(layers=3), Training(epochs=300, patience=300))
    run(2, fit_for, tmp_path / "shards", tmp_path / "whole", asked)
    assert json.loads(record.read_text()) == json.loads((tmp_path / "whole" / "fit.json").read_text())
