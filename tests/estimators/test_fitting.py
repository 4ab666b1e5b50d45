"""The engines of the estimators: the same answers, and a word on which one it was."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_info, threadpool_limits

from condiff import COINClassifier, COINRegressor, load
from condiff.errors import UnlabelledComponentWarning
from condiff.estimators import base, trained
from condiff.estimators.inputs import Items
from condiff.graph import kernel_graph, neighbours
from condiff.training.engines import streamed

X, Y = make_moons(120, noise=0.08, random_state=0)
SETTINGS: dict[str, Any] = {"base": "residual", "epochs": 25, "n_inits": 2, "folds": 3}


def _labels(per_class: int) -> Any:
    labels = np.full(len(Y), -1)
    for value in (0, 1):
        labels[np.flatnonzero(value == Y)[:per_class]] = value
    return labels


@pytest.mark.parametrize("per_class", [2, 8])
def test_the_reference_gives_the_same_probabilities(per_class: int) -> None:
    # Both sides of one point twice, with different labels: items that share a node.
    points, labels = np.concatenate([X, X[:2]]), np.append(_labels(per_class), [1 - Y[0], Y[1]])
    fast = COINClassifier(**SETTINGS).fit(points, labels)
    plain = COINClassifier(engine="reference", **SETTINGS).fit(points, labels)
    assert (fast.layers_, fast.strength_) == (plain.layers_, plain.strength_)
    np.testing.assert_allclose(fast.predict_proba(points), plain.predict_proba(points), atol=1e-4)


def test_the_reference_gives_the_same_values() -> None:
    values = np.where(np.arange(len(X)) % 8 == 0, X[:, 0], np.nan)
    fast = COINRegressor(**SETTINGS).fit(X, values)
    plain = COINRegressor(engine="reference", **SETTINGS).fit(X, values)
    np.testing.assert_allclose(fast.predict(X), plain.predict(X), atol=1e-4)


@pytest.mark.parametrize(
    "engine, said", [("auto", "engine projected: the diffusion is fixed"), ("reference", "as asked")]
)
def test_verbose_says_which_engine_and_why(engine: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    COINClassifier(engine=engine, verbose=True, **SETTINGS).fit(X, _labels(2))
    assert said in capsys.readouterr().out


def test_streaming_gives_the_same_answers_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = COINClassifier(**SETTINGS).fit(X, _labels(8))
    values = np.where(np.arange(len(X)) % 8 == 0, X[:, 0], np.nan)
    usual_values = COINRegressor(**SETTINGS).fit(X, values)
    monkeypatch.setattr(streamed, "LARGEST_ROWS", 0)
    monkeypatch.setattr(streamed, "BATCH", 50)
    for share in (0.0, 1.0):  # by products, or with the rows held
        monkeypatch.setattr(streamed, "HELD_SHARE", share)
        if share:  # once with compiled loops, where numba is installed, and once by autograd
            monkeypatch.setattr(streamed, "available", lambda: False)
        large = COINClassifier(verbose=True, **SETTINGS).fit(X, _labels(8))
        assert "engine streamed: the diffusion's rows" in capsys.readouterr().out
        np.testing.assert_allclose(large.predict_proba(X), usual.predict_proba(X), atol=1e-4)
        assert large.cv_score_ == usual.cv_score_
        np.testing.assert_allclose(
            COINRegressor(**SETTINGS).fit(X, values).predict(X), usual_values.predict(X), atol=1e-4
        )


def test_single_precision_and_mapped_rows_are_fitted_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    single = X.astype(np.float32)
    np.save(tmp_path / "x.npy", single)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    plain = COINClassifier(**SETTINGS).fit(single, _labels(8))
    model = COINClassifier(verbose=True, **SETTINGS).fit(mapped, _labels(8))
    assert "graph of 120 points; neighbours are exact" in capsys.readouterr().out
    assert model._domain.points.dtype == np.float32
    np.testing.assert_array_equal(model.predict_proba(mapped), plain.predict_proba(single))
    # Rows are found again by their values, whatever their precision.
    np.testing.assert_array_equal(model.predict_proba(single.astype(np.float64)), plain.predict_proba(single))
    double = COINClassifier(**SETTINGS).fit(single.astype(np.float64), _labels(8))
    np.testing.assert_allclose(model.predict_proba(single), double.predict_proba(single), atol=1e-3)


def test_an_approximate_graph_tells_its_recall(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("faiss", reason="faiss is not installed")
    monkeypatch.setattr(neighbours, "FAISS_FROM", 100)
    points, y = make_moons(900, noise=0.08, random_state=0)
    labels = np.where(np.arange(900) % 30 == 0, y, -1)
    model = COINClassifier(verbose=True, **SETTINGS).fit(points, labels)
    told = capsys.readouterr().out
    assert f"faiss found {100 * model._domain.recall:.1f} %" in told or "neighbours are exact" in told
    assert model._domain.recall > 0.9
    loaded = load(model.save(tmp_path / "model"))
    assert loaded._domain.recall == model._domain.recall
    np.testing.assert_array_equal(loaded.predict(points), model.predict(points))


def test_other_engines_are_refused() -> None:
    with pytest.raises(ValueError, match="engine"):
        COINClassifier(engine="gpu").fit(X, _labels(2))


def _count_as_many(monkeypatch: pytest.MonkeyPatch, points: int) -> None:
    for module in (base, trained):
        monkeypatch.setattr(module, "MANY", points)


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few hundred points count as many."""
    _count_as_many(monkeypatch, 200)
    monkeypatch.setattr(base, "STAGE", 150)
    monkeypatch.setattr(trained, "_MERGED", 60)


@pytest.mark.usefixtures("many")
def test_networks_on_many_points_learn_on_merged_ones(tmp_path: Path) -> None:
    points, truth = make_moons(500, noise=0.08, random_state=0)
    labels = np.full(len(truth), -1)
    for value in (0, 1):
        labels[np.flatnonzero(value == truth)[:12]] = value
    model = COINClassifier(base="residual", folds=3).fit(points, labels)
    # The network learns on 192 merged points, 8 for each label, and answers at all of them.
    assert model.record_.output.shape == (500, 2)
    assert (model.transduction_ == truth).mean() > 0.95
    assert model.cv_score_ > 0.9
    assert model.predict(points).tolist() == model.transduction_.tolist()
    assert all(each.diffusion.layers == model.layers_ for each in model.models_)
    # The answers are the diffusion of the fitted networks over the whole graph.
    base_output, output = model._diffuse()
    np.testing.assert_allclose(base_output, model.record_.base)
    np.testing.assert_allclose(output, model.record_.output, atol=1e-6)
    record = model.record_
    assert record.fold_outputs is not None and record.fold is not None
    np.testing.assert_allclose(record.answers, record.fold_outputs[record.fold, record.nodes[record.held_out]])
    new = points[:20] + 1e-3
    model.save(tmp_path / "model")
    np.testing.assert_allclose(load(tmp_path / "model").predict_proba(new), model.predict_proba(new), atol=1e-9)


@pytest.mark.usefixtures("many")
def test_near_duplicates_do_not_make_the_diffusion_endless() -> None:
    # Points of three classes that touch, each in six copies that hardly differ; some hang on the others by a thread.
    generator = np.random.default_rng(0)
    truth = np.repeat(np.arange(150) % 3, 6)
    centres = 2.5 * np.eye(3, 6)[np.arange(150) % 3] + generator.normal(size=(150, 6))
    points = np.repeat(centres, 6, axis=0) + 0.2 * generator.normal(size=(900, 6))
    labels = np.full(len(truth), -1)
    labels[:18:6] = truth[:18:6]  # one label per class: none can be held out to say that it was too far
    model = COINClassifier(base="residual").fit(points, labels)
    assert 10 < model.layers_ < 2500  # 5,000 by the trace alone, after which a third is right: as much as by chance
    assert (model.transduction_ == truth).mean() > 0.55


@pytest.mark.usefixtures("many")
def test_many_sparse_points_are_merged_too(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    truth = np.arange(400) % 2
    # Words of its own class, and some that both use.
    words = generator.random((400, 40)) < np.where(np.arange(40) < 20, 0.25, 0.02)[np.newaxis]
    words = np.where(truth[:, None] == 1, words[:, ::-1], words) | (generator.random((400, 40)) < 0.03)
    points = sp.csr_array(words.astype(float) + 1e-3 * generator.random((400, 40)) * words)
    labels = np.where(np.arange(400) < 16, truth, -1)
    model = COINClassifier(folds=0).fit(points, labels)
    assert (model.transduction_ == truth).mean() > 0.9
    assert model.predict(points).tolist() == model.transduction_.tolist()
    assert model._lesson(Items(np.arange(16), truth[:16], np.ones(16))).points.shape == (128, 40)


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("n_labels", [30, 120])
def test_where_networks_answer_at_all_points_many_labels_compare_layers_anew(
    n_labels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    points, truth = make_moons(2200, noise=0.15, random_state=0)
    labels = np.full(len(truth), -1)
    labels[:n_labels] = truth[:n_labels]
    tried: list[int] = []
    spread = COINClassifier._spread_over_all

    def watched(model: Any, networks: Any, numbers: Any, strength: float) -> Any:
        tried.extend(sorted(numbers))
        yield from spread(model, networks, numbers, strength)

    monkeypatch.setattr(COINClassifier, "_spread_over_all", watched)
    model = COINClassifier(base="residual").fit(points, labels)
    # Half of the longest; where labels are many, a quarter and all of it too.
    assert len(tried) == (1 if n_labels < 100 else 3) and model.layers_ in tried
    assert all(abs(longer - 2 * shorter) <= 1 for shorter, longer in itertools.pairwise(tried))
    record = model.record_
    assert record.fold_outputs is not None and record.fold is not None
    np.testing.assert_allclose(record.answers, record.fold_outputs[record.fold, record.nodes[record.held_out]])


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("classifies", [True, False])
def test_of_many_parts_those_with_a_label_are_learned_on(monkeypatch: pytest.MonkeyPatch, classifies: bool) -> None:
    # 400 triangles, a class each; a column tells it with noise that the triangle averages out.
    generator = np.random.default_rng(0)
    triangles = sp.block_diag([np.ones((3, 3)) - np.eye(3)] * 400, format="csr")
    truth = np.repeat(generator.integers(0, 2, 400), 3)
    columns = np.stack([truth + generator.normal(0, 0.5, 1200), generator.normal(size=1200)], axis=1)
    labels = np.where(np.arange(1200) % 40 == 0, truth, -1)
    target = labels if classifies else np.where(labels < 0, np.nan, labels)
    kind = COINClassifier if classifies else COINRegressor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnlabelledComponentWarning)
        model = kind(graph="precomputed", folds=3).fit(columns, target, adjacency=triangles)
        lesson = model._lesson(Items(np.flatnonzero(labels >= 0), labels[labels >= 0], np.ones(30)))
        _count_as_many(monkeypatch, 10_000)
        whole = kind(graph="precomputed", folds=3).fit(columns, target, adjacency=triangles)
    assert lesson.points.shape == (90 + 240, 2) and not lesson.is_merged
    assert lesson.graph.reached_from(lesson.items.nodes).sum() == 90
    assert model.record_.output.shape == (1200, 2 if classifies else 1)
    assert model.record_.reached.sum() == 90
    if not classifies:  # without a penalty on how common the classes are, nothing else is left out
        np.testing.assert_allclose(model.record_.output, whole.record_.output, atol=1e-3)
    found = model.record_.output[:, -1] > 0.5 if classifies else model.predict(columns) > 0.5
    assert (found == truth).mean() > 0.75


@pytest.mark.usefixtures("many")
def test_only_automatic_fits_on_neighbours_merge_points(monkeypatch: pytest.MonkeyPatch) -> None:
    points, truth = make_moons(300, noise=0.08, random_state=0)
    labels = np.full(len(truth), -1)
    labels[:8] = truth[:8]

    def refuse(*_: Any) -> None:
        raise AssertionError("points were merged")

    monkeypatch.setattr(trained.Coarse, "around", refuse)
    settings: dict[str, Any] = {"base": "residual", "epochs": 5, "n_inits": 1, "folds": 0}
    for options in ({"layers": 5}, {"strength": 0.5}, {"engine": "reference"}, {"graph": kernel_graph}):
        COINClassifier(**settings, **options).fit(points, labels)
    COINRegressor(**settings).fit(points, np.where(labels < 0, np.nan, labels))
    with pytest.raises(AssertionError, match="merged"):
        COINClassifier(**settings).fit(points, labels)


@pytest.mark.usefixtures("many")
def test_bases_are_compared_on_few_of_many_points(capsys: pytest.CaptureFixture[str]) -> None:
    points, truth = make_moons(400, noise=0.08, random_state=0)
    labels = np.full(len(truth), -1)
    labels[:16] = truth[:16]
    chosen = COINClassifier(base="blend").fit(points, labels)
    assert (chosen.transduction_ == truth).mean() > 0.9
    assert chosen.record_.output.shape == (400, 2)
    # A layer of many points reaches less far than one of the few that were rehearsed on.
    rehearsed = max(chosen.choice_.candidates, key=lambda each: each.worth)
    assert rehearsed.graph == "near" and 0 < rehearsed.layers < chosen.layers_ == chosen.choice_.chosen.layers
    assert COINClassifier(base="blend", layers=4).fit(points, labels).layers_ == 4
    capsys.readouterr()
    COINClassifier(base="residual", folds=0, verbose=True).fit(points, labels)
    assert "engine written: as asked" in capsys.readouterr().out


def test_rows_keep_their_answers_where_nodes_are_numbered_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = COINClassifier(layers=10, **{**SETTINGS, "folds": 0}).fit(X, _labels(8))
    _count_as_many(monkeypatch, 50)
    moved = COINClassifier(layers=10, **{**SETTINGS, "folds": 0}).fit(X, _labels(8))
    np.testing.assert_allclose(moved.predict_proba(X), usual.predict_proba(X), atol=1e-4)
    assert moved.transduction_.tolist() == usual.transduction_.tolist()
    new = X[:30] + 0.01
    np.testing.assert_allclose(moved.predict_proba(new), usual.predict_proba(new), atol=1e-4)


class _Watching(LogisticRegression):
    """Says how many threads torch and BLAS have while it is fitted."""

    seen: ClassVar[list[set[int]]] = []

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        self.seen.append({torch.get_num_threads(), *_blas_threads()})
        return super().fit(X, y, sample_weight)


def _blas_threads() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_small_fits_take_one_thread_and_give_the_others_back() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threadpool_limits(2):
            of_blas = _blas_threads()
            COINClassifier(base=_Watching()).fit(X, _labels(4))
            assert (torch.get_num_threads(), _blas_threads()) == (2, of_blas)
    finally:
        torch.set_num_threads(before)
    assert _Watching.seen and all(threads == {1} for threads in _Watching.seen)
