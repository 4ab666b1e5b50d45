import dataclasses
import json
import os
import signal
import time

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from tests.distributed.problems import problem, settings, single
from tests.distributed.ranks import Job, run

from condiff.distributed import Fit, Network, Partition, RankLostError, fit, gather_output, predict, save_output
from condiff.distributed.shards import Description
from condiff.distributed.train import usage
from condiff.errors import InvalidFileError, InvalidInputError, StepSizeWarning
from condiff.training import Training


def fit_and_save(ranks, shards, folder, out, fit_settings):
    fitted = fit(shards, folder, fit_settings, ranks=ranks)
    save_output(out, fitted, ranks)
    return fitted.record.losses, fitted.record.best_epoch, fitted.accuracy, usage(ranks, 0)[ranks.rank]


def predict_and_save(ranks, shards, folder, out):
    fitted = predict(shards, folder, ranks=ranks)
    save_output(out, fitted, ranks)
    return fitted.accuracy


def slow_fit(ranks, shards, folder, fit_settings):
    fit(shards, folder, fit_settings, ranks=ranks, on_epoch=lambda epoch, loss: time.sleep(0.05))


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("directed", [False, True])
def test_any_number_of_ranks_gives_the_fit_of_one_process(tmp_path, ranks, directed):
    made, asked = problem(directed=directed), settings()
    description = made.write(tmp_path / "shards", ranks, dtype="float64")
    results = run(ranks, fit_and_save, tmp_path / "shards", tmp_path / "fit", tmp_path / "out", asked)
    u, history = single(made, asked)
    assert np.abs(gather_output(tmp_path / "out") - u.numpy()).max() < 1e-11
    for losses, best_epoch, accuracy, _ in results:
        assert losses == results[0][0]  # the same bits on every rank
        assert losses == pytest.approx(history.losses, abs=1e-12)
        assert best_epoch == history.best_epoch
        assert accuracy == _accuracy(made, u)
    if ranks > 1:
        assert description.cut_entries > 0  # there was something to exchange


def test_in_single_precision_the_output_agrees_to_1e_5(tmp_path):
    made, asked = problem(), settings(dtype="float32")
    made.write(tmp_path / "shards", 2)
    run(2, fit_and_save, tmp_path / "shards", tmp_path / "fit", tmp_path / "out", asked)
    u, _ = single(made, asked)
    assert np.abs(gather_output(tmp_path / "out") - u.numpy()).max() < 1e-5


def test_early_stopping_stops_where_one_process_does(tmp_path):
    made, asked = problem(), settings(200, patience=4)
    made.write(tmp_path / "shards", 2, dtype="float64")
    (losses, best_epoch, _, _), _ = run(2, fit_and_save, tmp_path / "shards", tmp_path / "fit", tmp_path / "out", asked)
    u, history = single(made, asked)
    assert len(history.losses) < 200
    assert (len(losses), best_epoch) == (len(history.losses), history.best_epoch)
    assert np.abs(gather_output(tmp_path / "out") - u.numpy()).max() < 1e-10


def test_a_rank_sends_its_border_rows_once_a_layer_and_nothing_else(tmp_path):
    made, asked, epochs = problem(), settings(7), 7
    description = made.write(tmp_path / "shards", 4, dtype="float64")
    results = run(4, fit_and_save, tmp_path / "shards", tmp_path / "fit", tmp_path / "out", asked)
    # Forwards: before the first epoch, after each, and once for the answer; backwards: one an epoch.
    exchanges = asked.network.layers * (2 * epochs + 2)
    for part, (*_, used) in zip(description.parts, results, strict=True):
        assert used["exchanges"] == exchanges
        assert used["rows"] == exchanges * part.sends
        assert used["payload"] == exchanges * part.sends * 3 * 8


def test_a_rank_without_labels_takes_part(tmp_path):
    made = problem()
    assignment = np.zeros(400, dtype=np.int64)
    spare = np.setdiff1d(np.arange(400), np.concatenate([made.train, made.validation]))
    assignment[spare[:100]] = 1
    made.write(tmp_path / "shards", 2, dtype="float64", parts=Partition(assignment, 2))
    run(2, fit_and_save, tmp_path / "shards", tmp_path / "fit", tmp_path / "out", settings())
    assert np.abs(gather_output(tmp_path / "out") - single(made, settings())[0].numpy()).max() < 1e-11


def test_sparse_features_and_no_validation(tmp_path):
    x = np.where(np.abs(problem().x) < 0.5, 0.0, problem().x)
    made = dataclasses.replace(problem(), x=x, validation=np.array([], dtype=np.int64))
    asked = settings()
    expected, history = single(made, asked)
    dataclasses.replace(made, x=sp.csr_array(made.x)).write(tmp_path / "shards", 1, dtype="float64")
    fitted = fit(tmp_path / "shards", tmp_path / "fit", asked)
    assert (fitted.u - expected).abs().max() < 1e-11
    assert fitted.record.losses == pytest.approx(history.losses)
    again = predict(tmp_path / "shards", tmp_path / "fit")
    assert torch.equal(again.u, fitted.u)


def test_killed_ranks_end_the_job_and_a_restart_ends_in_the_same_answer(tmp_path):
    made, asked = problem(), settings(40, checkpoint_every=2)
    made.write(tmp_path / "shards", 2, dtype="float64")
    run(2, fit_and_save, tmp_path / "shards", tmp_path / "whole", tmp_path / "out", asked)
    job = Job(2, slow_fit, tmp_path / "shards", tmp_path / "fit", asked, timeout=20)
    _wait_for_epoch(tmp_path / "fit", 4)
    os.kill(job.processes[1].pid, signal.SIGKILL)
    survivor, killed = job.results()
    assert killed is None
    assert isinstance(survivor, RankLostError)
    stopped_at = len(_record(tmp_path / "fit")["losses"])
    assert 4 <= stopped_at < 40
    run(2, fit_and_save, tmp_path / "shards", tmp_path / "fit", tmp_path / "resumed", asked)
    assert _record(tmp_path / "fit") == _record(tmp_path / "whole")  # losses and the checksum of all tensors
    assert np.array_equal(gather_output(tmp_path / "resumed"), gather_output(tmp_path / "out"))


@pytest.mark.parametrize("patience", [50, None])
def test_a_fit_goes_on_with_another_number_of_ranks_and_more_epochs(tmp_path, patience):
    made, asked = problem(), settings(12, patience=patience)
    for ranks in (2, 4):
        made.write(tmp_path / f"shards{ranks}", ranks, dtype="float64")
    run(2, fit_and_save, tmp_path / "shards2", tmp_path / "fit", tmp_path / "out2", settings(5, patience=patience))
    results = run(4, fit_and_save, tmp_path / "shards4", tmp_path / "fit", tmp_path / "out4", asked)
    u, history = single(made, asked)
    assert np.abs(gather_output(tmp_path / "out4") - u.numpy()).max() < 1e-11
    assert results[0][0] == pytest.approx(history.losses, abs=1e-12)
    run(2, predict_and_save, tmp_path / "shards2", tmp_path / "fit", tmp_path / "again")
    assert np.abs(gather_output(tmp_path / "again") - u.numpy()).max() < 1e-11


def test_a_finished_fit_is_not_run_again(tmp_path):
    problem().write(tmp_path / "shards", 1)
    epochs = []
    for _ in range(2):
        fit(tmp_path / "shards", tmp_path / "fit", settings(3), on_epoch=lambda epoch, loss: epochs.append(epoch))
    assert epochs == [0, 1, 2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"network": Network(layers=6, dtype="float64", seed=3)}, "another layers"),
        ({"training": Training("sgd", 0.05, epochs=3)}, "another optimiser"),
    ],
)
def test_other_settings_are_refused(tmp_path, change, message):
    problem().write(tmp_path / "shards", 1)
    fit(tmp_path / "shards", tmp_path / "fit", settings(2))
    with pytest.raises(InvalidInputError, match=message):
        fit(tmp_path / "shards", tmp_path / "fit", dataclasses.replace(settings(3), **change))


def test_another_problem_is_refused(tmp_path):
    problem().write(tmp_path / "shards", 1)
    problem(seed=1).write(tmp_path / "others", 1)
    fit(tmp_path / "shards", tmp_path / "fit", settings(2))
    with pytest.raises(InvalidInputError, match="holds a fit with another"):
        fit(tmp_path / "others", tmp_path / "fit", settings(2))


def test_a_strength_past_the_limit_is_said(tmp_path):
    problem().write(tmp_path / "shards", 1)
    limit = 1 / Description.load(tmp_path / "shards").max_diagonal
    with pytest.warns(StepSizeWarning, match=f"positivity limit {limit:.4g}"):
        fit(tmp_path / "shards", tmp_path / "fit", Fit(Network(layers=1, strength=2 * limit), Training(epochs=1)))


def test_a_fit_that_diverges_says_so(tmp_path):
    problem().write(tmp_path / "shards", 1)
    asked = Fit(Network(layers=1), Training("sgd", 1e38, epochs=5))
    with pytest.raises(InvalidInputError, match="diverged in epoch"):
        fit(tmp_path / "shards", tmp_path / "fit", asked)


def test_predicting_without_a_fit_and_gathering_without_output(tmp_path):
    problem().write(tmp_path / "shards", 1)
    with pytest.raises(InvalidFileError, match="holds no fit"):
        predict(tmp_path / "shards", tmp_path / "fit")
    with pytest.raises(InvalidFileError, match="holds no output"):
        gather_output(tmp_path)


def test_missing_output_of_a_rank_is_found(tmp_path):
    made = problem()
    made.write(tmp_path / "shards", 2)
    run(2, fit_and_save, tmp_path / "shards", tmp_path / "fit", tmp_path / "out", settings(1))
    for path in (tmp_path / "out" / "part-0000").iterdir():
        path.unlink()
    (tmp_path / "out" / "part-0000").rmdir()
    with pytest.raises(InvalidFileError, match="lacks the output"):
        gather_output(tmp_path / "out")


def _accuracy(made, u):
    rest = np.setdiff1d(np.arange(len(made.classes)), np.concatenate([made.train, made.validation]))
    return 100 * np.mean(u.argmax(-1).numpy()[rest] == made.classes[rest])


def _record(folder):
    return json.loads((folder / "fit.json").read_text())


def _wait_for_epoch(folder, epoch):
    deadline = time.monotonic() + 60
    while not (folder / "fit.json").exists() or len(_record(folder)["losses"]) < epoch:
        assert time.monotonic() < deadline
        time.sleep(0.02)
