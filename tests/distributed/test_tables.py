"""The whole fit of a table on a Dask cluster, whose workers are threads here; test_killed.py has real processes."""

import json
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

pytest.importorskip("distributed")
pytest.importorskip("faiss")

from tests.distributed.tables import alone, make, moons, write
from typer.testing import CliRunner

from condiff import load
from condiff.cli.app import app
from condiff.diffusion import degrees_of_freedom, diffusion_time
from condiff.distributed import cells, rows, tables
from condiff.distributed.crew import ClusterLostError, Crew, Work
from condiff.distributed.tables import Sizes, fit_table, predict_table
from condiff.encoders import TableEncoder
from condiff.errors import InvalidFileError, InvalidInputError, WriteError
from distributed import Client, KilledWorker

SMALL = Sizes(part_rows=100, block_rows=100, recall=1.0)
BLEND = {"base": "blend", "layers": 4}


@pytest.fixture(scope="module")
def client():
    with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit="4GB") as here:
        yield here


@pytest.fixture(scope="module")
def fitted(client, tmp_path_factory):
    """A table, its folder, and what a cluster has fitted to it."""
    folder = tmp_path_factory.mktemp("fitted")
    frame, _ = make(420)
    source = write(frame, folder / "source")
    return frame, source, fit_table(source, "kind", folder / "model", cluster=client, sizes=SMALL, **BLEND)


def chances(folder):
    table = pq.read_table(folder).to_pandas()
    return table[[name for name in table if name.startswith("p_")]].to_numpy()


def test_the_answers_are_those_of_one_process(fitted):
    frame, _, found = fitted
    single = alone(frame, "kind", found.model, layers=4)
    np.testing.assert_allclose(chances(found.model / "answers"), single.predict_proba(frame), atol=1e-5)
    assert found.cv_score == single.cv_score_
    assert found.strength == pytest.approx(single.strength_, rel=1e-5)
    assert (found.rows, found.nodes, found.edges) == (420, 417, single.graph_.n_edges)
    assert found.blocks > 3 and 0 < found.border < 1 and found.recall == 1
    assert found.certificate.positivity_limit == pytest.approx(single.certificate_.positivity_limit, rel=1e-5)
    assert found.certificate.stability_limit <= single.certificate_.stability_limit * (1 + 1e-6)


def test_given_labels_are_kept_and_rows_stay_in_their_order(fitted):
    frame, _, found = fitted
    answers = pq.read_table(found.model / "answers").to_pandas()
    known = frame["kind"].notna().to_numpy()
    assert answers["label"][known].tolist() == frame["kind"][known].tolist() == answers["given"][known].tolist()
    assert answers["row"].tolist() == list(range(1, 421)) and answers["given"][~known].isna().all()


def test_new_rows_are_diffused_along_as_in_one_process(fitted, client, tmp_path):
    frame, _, found = fitted
    both = pd.concat([make(60, seed=1)[0], frame.iloc[100:140]]).drop(columns="kind")
    predict_table(found.model, write(both, tmp_path / "new", 1, 30), tmp_path / "out", cluster=client, sizes=SMALL)
    single = alone(frame, "kind", found.model, layers=4)
    np.testing.assert_allclose(chances(tmp_path / "out"), single.predict_proba(both), atol=1e-5)
    assert not (tmp_path / "out.work").exists()


def test_the_model_also_loads_by_itself(fitted):
    frame, _, found = fitted
    model = load(found.model)
    assert (model.predict(frame) == alone(frame, "kind", found.model, layers=4).predict(frame)).mean() > 0.98


def test_values_too(client, tmp_path):
    frame, truth = make(400)
    frame["kind"] = np.where(frame["kind"].notna(), truth + 0.25 * frame["x3"], np.nan)
    source = write(frame, tmp_path / "source")
    sizes = Sizes(part_rows=100, block_rows=150, recall=1.0)
    found = fit_table(source, "kind", tmp_path / "model", cluster=client, sizes=sizes, **BLEND)
    single = alone(frame, "kind", found.model, layers=4)
    answers = pq.read_table(found.model / "answers").to_pandas()["value"]
    assert found.task == "regression" and found.cv_score == pytest.approx(single.cv_score_)
    np.testing.assert_allclose(answers, single.transduction_, atol=1e-4)


def test_networks_are_diffused_until_as_much_freedom_is_left(client, tmp_path):
    frame, _ = make(240)
    source = write(frame, tmp_path / "source")
    network = {"base": "residual", "epochs": 20, "n_inits": 1, "folds": 0}
    found = fit_table(source, "kind", tmp_path / "given", cluster=client, sizes=SMALL, layers=5, **network)
    single = alone(frame, "kind", found.model, layers=5, **network)
    np.testing.assert_allclose(chances(found.model / "answers"), single.predict_proba(frame), atol=1e-4)
    found = fit_table(source, "kind", tmp_path / "auto", cluster=client, sizes=SMALL, **network)
    single = alone(frame, "kind", found.model, **network)
    assert found.layers * found.strength == pytest.approx(single.diffusion_time_, rel=0.3)  # from a few random signs
    assert found.strength <= found.certificate.positivity_limit
    assert (chances(found.model / "answers").argmax(axis=1) == single.predict_proba(frame).argmax(axis=1)).mean() > 0.97


def test_a_pilot_of_few_rows_is_followed_by_freedom(client, tmp_path):
    frame = moons(1500)
    source = write(frame, tmp_path / "source", group=250)
    sizes = Sizes(part_rows=500, block_rows=500, pilot_rows=200, recall=1.0)
    found = fit_table(source, "kind", tmp_path / "model", cluster=client, sizes=sizes, base="blend")
    pilot, single = load(found.model), alone(frame, "kind", found.model, layers=1)
    assert pilot.layers_ > 0 and f"of the pilot, {found.layers} layers over all rows" in found.choice
    left = degrees_of_freedom(pilot.graph_, pilot.diffusion_time_)
    assert found.layers * found.strength == pytest.approx(diffusion_time(single.graph_, left), rel=0.3)
    assert pilot.diffusion_time_ < found.layers * found.strength
    assert found.strength <= found.certificate.positivity_limit


def test_counts_and_spreads_are_those_of_all_rows(client, tmp_path):
    frame, truth = make(600)
    frame["colour"] = np.array(["red", "green", "blue"], object)[(truth + (np.arange(600) % 5 == 0)) % 3]
    frame.loc[10:40, "x1"] = np.nan
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(600) % 90, unit="D")
    source = write(frame, tmp_path / "source")
    sizes = Sizes(part_rows=100, block_rows=300, pilot_rows=150)
    found = fit_table(source, "kind", tmp_path / "model", cluster=client, sizes=sizes, layers=0)
    exact = {column.name: column for column in TableEncoder(drop=["kind"]).fit(frame).columns_}
    for column in load(found.model).encoder_.columns_:
        whole = exact[column.name]
        if column.type == "category":
            assert (column.levels, column.scale) == (whole.levels, whole.scale)
        else:
            assert (column.low, column.high, column.flag) == (whole.low, whole.high, whole.flag)
            unit, own = (whole.unit, column.unit) if column.type == "number" else (1.0, 1.0)
            # Dates are centred at the median, which is that of the gathered rows.
            assert own * column.scale == pytest.approx(unit * whole.scale, rel=0.1 if column.type == "date" else 1e-6)
    assert "31 missing" in str(found.columns) and found.edges == 0 and found.certificate is None


def test_what_is_finished_is_not_done_again(fitted, client, tmp_path, monkeypatch):
    _, source, whole = fitted
    real = cells.diffuse

    def full(work, item, *arguments):
        if arguments[1] == 3 and item == 1:
            raise OSError(28, "No space left on device")
        return real(work, item, *arguments)

    monkeypatch.setattr(cells, "diffuse", full)
    with pytest.raises(WriteError, match=r"stage 'layer-0003': .*No space left.*the same command continues"):
        fit_table(source, "kind", tmp_path / "model", cluster=client, sizes=SMALL, **BLEND)
    marks = {path: path.stat().st_mtime_ns for path in (tmp_path / "model.work/marks").rglob("*.json")}
    monkeypatch.setattr(cells, "diffuse", real)
    for function in ("gather_some", "encode"):
        monkeypatch.setattr(rows, function, None)  # nothing calls them again
    said = []
    found = fit_table(source, "kind", tmp_path / "model", cluster=client, sizes=SMALL, report=said.append, **BLEND)
    assert len(marks) > 60 and said[0].startswith("continuing in ")
    assert np.array_equal(chances(found.model / "answers"), chances(whole.model / "answers"))


def test_other_settings_begin_anew(tmp_path):
    work, said = Work(tmp_path / "work"), []
    part = rows.Part(str(tmp_path / "rows.parquet"), (0,), 1)
    (tmp_path / "rows.parquet").write_bytes(b"rows")
    for settings in ({"layers": 4}, {"layers": 4}, {"layers": 8}):
        tables._open(work, [part], settings, said.append)
        work.write_json("marks/encode/000000", {})
    assert len(said) == 1 and len(work.marks("encode")) == 1


def test_a_dask_data_frame(fitted, client, tmp_path):
    frames = pytest.importorskip("dask.dataframe")
    frame, _, whole = fitted
    source = frames.from_pandas(frame, npartitions=3, sort=False)
    found = fit_table(source, "kind", tmp_path / "model", cluster=client, sizes=SMALL, **BLEND)
    np.testing.assert_allclose(chances(found.model / "answers"), chances(whole.model / "answers"), atol=1e-5)


def test_bad_input_is_said_in_one_line(fitted, client, tmp_path):
    frame, source, found = fitted
    (tmp_path / "empty").mkdir()
    nothing = write(frame.assign(kind=None, note="x"), tmp_path / "unlabelled", 1)
    mixed = write(frame, tmp_path / "mixed")
    frame.rename(columns={"x0": "other"}).to_parquet(mixed / "rows-9.parquet")
    for folder, target, options, message in (
        (tmp_path / "empty", "kind", {}, "has no rows: it must hold Parquet files"),
        (tmp_path / "none", "kind", {}, "is not a folder"),
        (mixed, "kind", {}, "have different columns"),
        (source, "kin", {}, "no target column 'kin'.*did you mean 'kind'"),
        (nothing, "kind", {}, "is empty in every row"),
        (source, "kind", {"graph": "leaves"}, "needs all rows in one place"),
        (source, "kind", {"base": "forest"}, "The 'base' parameter of COINClassifier must be"),
        (source, "kind", {"layer": 4}, "layer does not apply to a classification"),
        (source, "kind", {"class_prior": {"a": 1, "z": 1}, "layers": 4}, "there is no class 'z'"),
    ):
        with pytest.raises((InvalidInputError, InvalidFileError), match=message):
            fit_table(folder, target, tmp_path / "model", cluster=client, sizes=SMALL, **options)
        assert not (tmp_path / "model").exists()
    with pytest.raises(InvalidInputError, match="already holds a model"):
        fit_table(source, "kind", found.model, cluster=client)
    with pytest.raises(InvalidFileError, match="was not fitted on a cluster"):
        predict_table(tmp_path, source, tmp_path / "out", cluster=client)


def test_workers_and_schedulers_that_are_gone_are_said_in_one_line(tmp_path):
    team = Crew(None, 1_500_000_000)
    for error, message in (
        (KilledWorker("task", None, 3), r"several workers died .* want of memory \(1.5 GB each\)"),
        (MemoryError(), "needs more memory than a worker has"),
        (TimeoutError("no answer"), "the scheduler is gone"),
    ):
        lost = pytest.raises(ClusterLostError, match=f"stage 'join'.*{message}.*the same command continues")
        with lost, team._explaining(Work(tmp_path), "join"):
            raise error


def test_the_commands(fitted, client, tmp_path, monkeypatch):
    _, source, whole = fitted

    @contextmanager
    def here(cluster, *, workers, memory, report):
        assert cluster is None and workers == 2
        yield Crew(client, 4_000_000_000, report)

    monkeypatch.setattr(tables, "crew", here)
    run = CliRunner().invoke
    model, out = str(tmp_path / "model"), str(tmp_path / "out")
    shared = ["--workers", "2", "--json"]
    done = run(
        app, ["fit", str(source), "--target", "kind", "--out", model, "--layers", "4", "--base", "blend", *shared]
    )
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)[0]
    assert summary["rows"] == 420 and summary["layers"] == 4 and summary["certificate"]["positivity_limit"] > 0
    done = run(app, ["predict", model, str(source), "--out", out, *shared])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == [{"rows": 420, "out": out}]
    assert np.array_equal(chances(tmp_path / "out"), chances(tmp_path / "model/answers"))
    assert (chances(tmp_path / "out").argmax(axis=1) == chances(whole.model / "answers").argmax(axis=1)).mean() > 0.97
    for command in (
        ["fit", str(source), "--out", model + "2"],
        ["fit", str(source), "--target", "kind", "--out", model + "2", "--edges", "edges.csv"],
        ["predict", model, str(source), "--out", out + "2", "--coverage", "0.9"],
        ["fit", str(source / "rows-0.parquet"), "--target", "kind", "--out", model + "2", "--cluster", "tcp://here:1"],
    ):
        done = run(app, command)
        assert isinstance(done.exception, InvalidInputError), done.output


def test_cells_follow_each_other_and_blocks_are_runs_of_them():
    random = np.random.default_rng(0)
    centres = random.normal(size=(64, 3)).astype(np.float32)
    order = list(cells._nearby(centres, np.ones(64)))
    assert sorted(order) == list(range(64))
    apart = np.linalg.norm(np.diff(centres[order], axis=0), axis=1).mean()
    assert apart < 0.8 * np.linalg.norm(np.diff(centres, axis=0), axis=1).mean()
    assert cells.cut_into_blocks(np.array([5, 5, 20, 1, 1, 1]), 10) == [(0, 2), (2, 3), (3, 6)]


def test_a_component_is_reached_through_any_number_of_blocks():
    facts = [
        {"pairs": [[0, 10], [3, 13]], "labelled": []},
        {"pairs": [[10, 20]], "labelled": []},
        {"pairs": [], "labelled": [20, 25]},
    ]
    assert cells.reached_components(facts).tolist() == [0, 10, 20, 25]
