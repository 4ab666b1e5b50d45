"""Randomised smoothing of classifiers, and of a COIN on a given graph."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.stats import binom, norm
from sklearn.datasets import load_iris, make_moons
from sklearn.linear_model import LogisticRegression
from torch import nn

from condiff import COIN, COINClassifier, Graph
from condiff.bases import Residual
from condiff.diffusion import Diffusion
from condiff.errors import InvalidInputError
from condiff.theory.smoothing import SmoothedClassifier, SmoothedNodes

NORMAL = np.array([3.0, -4.0])  # of length 5


def half_plane(x: torch.Tensor) -> torch.Tensor:
    """Two classes on both sides of a line; a point's true radius is its distance from the line."""
    return (x @ torch.as_tensor(NORMAL, dtype=x.dtype) > 1.0).long()


def distance(X: np.ndarray) -> np.ndarray:
    return np.abs(X @ NORMAL - 1.0) / 5.0


def side(X: np.ndarray) -> np.ndarray:
    return (X @ NORMAL > 1.0).astype(int)


def scores(x: torch.Tensor) -> torch.Tensor:
    z = x @ torch.as_tensor(NORMAL, dtype=x.dtype) - 1.0
    return torch.stack([-z, z], dim=1)


def away(distances: Any) -> np.ndarray:
    """Points so far from the line, on the side of class 1."""
    return (1 + 5 * np.asarray(distances))[:, None] * NORMAL / 25


# ---- what is promised -----------------------------------------------------------------------------------------------


def test_certificates_hold_as_often_as_promised() -> None:
    X = np.random.default_rng(0).normal(size=(5000, 2))
    alpha = 0.05
    smoothed = SmoothedClassifier(
        half_plane, 0.5, n_classes=2, alpha=alpha, selection_samples=20, samples=100, batch_size=2**16
    )
    found = smoothed.certify(X)
    given = ~found.abstained
    wrong = given & ((found.labels != side(X)) | (found.radius > distance(X)))
    assert given.sum() > 3500
    assert wrong.sum() <= binom.ppf(1 - 1e-4, len(X), alpha)
    assert wrong.sum() > 0.2 * alpha * len(X)  # a bound that never fails would be too cautious


def test_answers_hold_as_often_as_promised() -> None:
    X = np.random.default_rng(1).normal(size=(4000, 2)) * 0.1 + NORMAL / 25  # close to the line, where errors happen
    smoothed = SmoothedClassifier(half_plane, 0.5, n_classes=2, alpha=0.1, samples=60, batch_size=2**16)
    answers = smoothed.predict(X)
    wrong = (answers >= 0) & (answers != side(X))
    assert 0 < wrong.sum() <= binom.ppf(1 - 1e-4, len(X), 0.1)


@pytest.mark.parametrize("correction", ["bonferroni", "holm"])
def test_corrected_answers_hold_all_together(correction: Any) -> None:
    # On the line both classes are as likely: whichever is answered, half of the time it is the wrong one.
    X = np.repeat(NORMAL[None] / 25, 40, axis=0)
    families = {"none": 0, correction: 0}
    for seed in range(60):
        smoothed = SmoothedClassifier(half_plane, 0.5, n_classes=2, alpha=0.2, samples=50, random_state=seed)
        for name in families:
            families[name] += bool((smoothed.predict(X, correction=name) >= 0).any())  # type: ignore[arg-type]
    assert families[correction] <= binom.ppf(1 - 1e-4, 60, 0.2)
    assert families["none"] > 50


def test_the_radius_tends_to_the_truth() -> None:
    X = away([0.2, 0.5, 0.8])
    gaps = []
    for samples in (100, 1000, 10_000, 100_000):
        found = SmoothedClassifier(half_plane, 0.5, n_classes=2, samples=samples, batch_size=2**16).certify(X)
        gaps.append(np.abs(found.radius - [0.2, 0.5, 0.8]).max())
    assert np.all(np.diff(gaps) < 0)
    assert gaps[-1] < 0.02
    # With p the share of votes, the radius is off by about z sqrt(p (1 - p) / n) / density.
    p = norm.cdf(0.8 / 0.5)
    expected = 0.5 * (norm.ppf(0.999) + 4) * np.sqrt(p * (1 - p) / 100_000) / norm.pdf(0.8 / 0.5)
    assert gaps[-1] < expected


def test_the_radius_cannot_exceed_what_so_many_votes_can_show() -> None:
    [found] = [SmoothedClassifier(half_plane, 0.3, n_classes=2, samples=500, alpha=0.01).certify(away([50.0]))]
    assert found.votes[0] == 500
    assert found.radius[0] == pytest.approx(0.3 * norm.ppf(0.01 ** (1 / 500)))


def test_it_abstains_where_nothing_can_be_said() -> None:
    X = np.vstack([away([0.0]), away([1.0])])
    smoothed = SmoothedClassifier(half_plane, 0.5, n_classes=2, samples=200)
    found = smoothed.certify(X)
    assert found.abstained.tolist() == [True, False]
    assert found.radius[0] == 0
    assert smoothed.predict(X).tolist() == [-1, 1]


def test_selection_and_estimation_never_see_the_same_noise() -> None:
    seen: list[torch.Tensor] = []

    def spy(x: torch.Tensor) -> torch.Tensor:
        seen.append(x)
        return half_plane(x)

    SmoothedClassifier(spy, 0.5, n_classes=2, selection_samples=50, samples=50, batch_size=7).certify(np.zeros((3, 2)))
    rows = torch.cat(seen)
    assert rows.shape == (2 * 50 * 3, 2)
    assert len(torch.unique(rows, dim=0)) == len(rows)


def test_the_noise_is_gaussian_of_the_asked_width() -> None:
    seen: list[torch.Tensor] = []

    def spy(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.double())
        return half_plane(x)

    SmoothedClassifier(spy, 0.3, n_classes=2, samples=10_000).predict([[2.0, -1.0]])
    noise = (torch.cat(seen) - torch.tensor([2.0, -1.0])).numpy()
    np.testing.assert_allclose(noise.mean(axis=0), 0, atol=0.015)
    np.testing.assert_allclose(np.cov(noise.T), 0.09 * np.eye(2), atol=0.006)


# ---- seeds and batches ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 7, 50, 64, 10_000])
def test_batches_do_not_matter(batch_size: int) -> None:
    X = np.random.default_rng(3).normal(size=(5, 2))
    options: dict[str, Any] = {"selection_samples": 11, "samples": 50, "random_state": 4, "alpha": 0.1}
    smoothed = SmoothedClassifier(half_plane, 1.0, 2, batch_size=batch_size, **options)
    usual = SmoothedClassifier(half_plane, 1.0, 2, **options)
    np.testing.assert_array_equal(smoothed.certify(X).votes, usual.certify(X).votes)
    np.testing.assert_array_equal(smoothed.predict(X), usual.predict(X))


def test_seeds_do() -> None:
    X = away(np.linspace(0.1, 0.9, 30))
    first, again, other = (
        SmoothedClassifier(half_plane, 1.0, 2, random_state=seed, samples=200).certify(X).votes for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_equal_points_have_noise_of_their_own() -> None:
    votes = SmoothedClassifier(half_plane, 1.0, 2).certify(np.zeros((20, 2)) + 0.1).votes
    assert len(set(votes.tolist())) > 5


# ---- who may be smoothed --------------------------------------------------------------------------------------------


def test_classes_and_scores_are_the_same_classifier() -> None:
    X = np.random.default_rng(5).normal(size=(6, 2))
    first, second = SmoothedClassifier(half_plane, 0.5, 2).certify(X), SmoothedClassifier(scores, 0.5).certify(X)
    np.testing.assert_array_equal(first.votes, second.votes)
    np.testing.assert_array_equal(first.labels, second.labels)


def test_a_module_is_asked_in_evaluation_mode_and_left_as_it_was() -> None:
    module = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3)).double()
    module[2].eval()
    smoothed = SmoothedClassifier(module, 0.5, samples=100)
    votes = smoothed.certify(np.ones((2, 2))).votes
    assert module.training
    assert not module[2].training
    assert not module[1].running_mean.any()
    module.eval()
    np.testing.assert_array_equal(votes, smoothed.certify(np.ones((2, 2))).votes)


def test_images_keep_their_shape() -> None:
    def bright(x: torch.Tensor) -> torch.Tensor:
        assert x.shape[1:] == (1, 4, 4)
        return (x.mean(dim=(1, 2, 3)) > 0.5).int()

    found = SmoothedClassifier(bright, 0.25, 2).certify(np.stack([np.zeros((1, 4, 4)), np.ones((1, 4, 4))]))
    assert found.labels.tolist() == [0, 1]
    # The mean of 16 pixels is half away from the threshold, which is 0.5 * sqrt(16) in the images' space.
    assert (found.radius < 2).all()


@pytest.mark.parametrize("names", [["setosa", "versicolor", "virginica"], [10, 20, 30], [1.0, 2.0, 3.0]])
def test_an_estimator_answers_in_its_own_labels(names: list[Any]) -> None:
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=2000).fit(X, np.array(names)[y])
    smoothed = SmoothedClassifier(model, 0.2, samples=200)
    assert smoothed.certify(X[::10]).labels.dtype == np.array(names).dtype
    answers = smoothed.predict(X[::10])
    right = answers == np.array(names)[y[::10]]
    assert right.mean() > 0.85
    nothing = {"U": "", "i": -1, "f": np.nan}[np.array(names).dtype.kind]
    kept = np.isin(answers, names)
    assert all(np.array_equal(answer, nothing) or answer != answer for answer in answers[~kept])


class Sides:
    """The least that counts as an estimator, with answers that are neither numbers nor words."""

    classes_ = np.array([False, True], dtype=object)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.classes_[side(X)]


def test_objects_abstain_with_none_and_sparse_rows_are_read() -> None:
    answers = SmoothedClassifier(Sides(), 0.5, samples=100).predict(sp.csr_array(away([0.0, 1.0])))
    assert answers.tolist() == [None, True]


def test_a_label_that_is_minus_one_is_not_taken_for_no_answer() -> None:
    model = LogisticRegression().fit(away([-1.0, 1.0]), [-1, 1])
    with pytest.raises(InvalidInputError, match="-1 is a class"):
        SmoothedClassifier(model, 0.5, samples=100).predict(away([0.0, 1.0]))
    assert SmoothedClassifier(model, 0.5, samples=100, abstain=0).predict(away([0.0, 1.0])).tolist() == [0, 1]
    unsure = SmoothedClassifier(model, 0.5, samples=100, abstain="unsure").predict(away([0.0, 1.0]))
    assert unsure.tolist() == ["unsure", 1]


@pytest.fixture(scope="module")
def moons() -> tuple[COINClassifier, np.ndarray, np.ndarray]:
    X, y = make_moons(300, noise=0.06, random_state=0)
    labels = np.full(250, -1)
    for label in (0, 1):
        labels[np.flatnonzero(y[:250] == label)[:4]] = label
    return COINClassifier(base="residual", folds=0).fit(X[:250], labels), X[250:], y[250:]


def test_coin_is_smoothed_as_it_predicts(moons: tuple[COINClassifier, np.ndarray, np.ndarray]) -> None:
    model, X, y = moons
    smoothed = SmoothedClassifier(model, 0.1, samples=300, selection_samples=30)
    found = smoothed.certify(X[:15])
    assert (found.labels == y[:15]).mean() > 0.9
    # The votes are those of predict on noisy rows of our own.
    generator = np.random.default_rng(0)
    for row in range(3):
        noisy = X[row] + 0.1 * generator.normal(size=(2000, 2))
        share = (model.predict(noisy) == found.labels[row]).mean()
        spread = np.sqrt(max(share * (1 - share), 1e-3) / 300)
        assert abs(found.votes[row] / 300 - share) < 5 * spread


def test_no_attack_within_the_radius_changes_the_smoothed_answer(
    moons: tuple[COINClassifier, np.ndarray, np.ndarray],
) -> None:
    model, X, _ = moons
    smoothed = SmoothedClassifier(model, 0.1, samples=400, selection_samples=50, alpha=1e-4)
    found = smoothed.certify(X[:6])
    angles = np.linspace(0, 2 * np.pi, 8, endpoint=False)
    for row in np.flatnonzero(~found.abstained):
        moved = X[row] + 0.99 * found.radius[row] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        answers = smoothed.predict(moved)
        assert set(answers.tolist()) <= {-1, int(found.labels[row])}


# ---- beside another implementation ----------------------------------------------------------------------------------


def other_certificate(module: nn.Module, X: np.ndarray, noise: float, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """The certificate of adversarial-robustness-toolbox, whose noise comes from numpy's global state."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        smoothing = pytest.importorskip("art.estimators.certification.randomized_smoothing")
        pytest.importorskip("statsmodels")
        model = smoothing.PyTorchRandomizedSmoothing(
            module, nn.CrossEntropyLoss(), X.shape[1:], 2, sample_size=200, scale=noise, alpha=0.001, device_type="cpu"
        )
        state = np.random.get_state()  # noqa: NPY002
        try:
            np.random.seed(0)  # noqa: NPY002
            return model.certify(X.astype(np.float32), n=samples, batch_size=samples)  # type: ignore[no-any-return]
        finally:
            np.random.set_state(state)  # noqa: NPY002


def linear_module() -> nn.Module:
    module = nn.Linear(2, 2)
    with torch.no_grad():
        module.weight.copy_(torch.tensor(np.stack([-NORMAL, NORMAL])))
        module.bias.copy_(torch.tensor([1.0, -1.0]))
    return module


def residual_module() -> nn.Module:
    torch.manual_seed(3)
    return Residual(2, 2, width=16)


@pytest.mark.parametrize("make", [linear_module, residual_module])
def test_the_radius_is_that_of_adversarial_robustness_toolbox(make: Callable[[], nn.Module]) -> None:
    module, noise, samples = make(), 0.5, 3000
    X = np.random.default_rng(6).normal(size=(25, 2))
    labels, radius = other_certificate(module, X, noise, samples)
    ours = SmoothedClassifier(module, noise, selection_samples=200, samples=samples).certify(X)
    both = (labels >= 0) & ~ours.abstained
    assert both.sum() >= 15
    np.testing.assert_array_equal(labels[both], ours.labels[both])
    # Both bound the share of votes from as many samples: apart by the error of two independent ones.
    share = np.clip(ours.votes[both] / samples, 1 / samples, 1 - 1 / samples)
    error = noise * np.sqrt(2 * share * (1 - share) / samples) / norm.pdf(norm.ppf(share))
    assert (np.abs(radius[both] - ours.radius[both]) < 4.5 * error).all()
    assert np.abs((radius[both] - ours.radius[both]) / error).mean() < 1.3  # 0.8 is expected
    # Where only one of them abstains, it is close.
    assert (np.maximum(radius, ours.radius)[~both] < 0.15).all()


# ---- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": 0.0}, "noise must be a positive number"),
        ({"noise": float("nan")}, "noise must be a positive number"),
        ({"noise": "much"}, "noise must be a positive number"),
        ({"alpha": 0.0}, "alpha must be"),
        ({"alpha": 0.5}, "alpha must be"),
        ({"samples": 0}, "samples must be a whole number, 1 or more"),
        ({"selection_samples": 2.5}, "selection_samples must be a whole number"),
        ({"batch_size": True}, "batch_size must be a whole number"),
        ({"random_state": -1}, "random_state must be a whole number, 0 or more"),
        ({"n_classes": 1}, "n_classes must be a whole number, 2 or more"),
        ({"f": 3}, "f must have a predict method or be callable"),
    ],
)
def test_settings_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        SmoothedClassifier(**{"f": half_plane, "noise": 0.5, "n_classes": 2, **options})


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([1.0, 2.0], r"expected points of shape \(n, features\)"),
        (np.zeros((0, 2)), "at least one"),
        ([[np.nan, 1.0]], "NaN or infinite"),
        ([["a", "b"]], "not an array of numbers"),
    ],
)
def test_points_that_cannot_be(X: Any, message: str) -> None:
    for method in ("predict", "certify"):
        with pytest.raises(InvalidInputError, match=message):
            getattr(SmoothedClassifier(half_plane, 0.5, 2), method)(X)


@pytest.mark.parametrize(
    ("f", "n_classes", "message"),
    [
        (half_plane, None, "give n_classes"),
        (lambda x: half_plane(x) + 1, 2, "answers 2, which is none of its classes"),
        (lambda x: x.sum(), 2, r"the shape \(\)"),
        (lambda x: scores(x) * torch.nan, None, "NaN"),
        (scores, 3, "2 scores per row"),
        (lambda x: x[:, :1], None, "1 scores per row"),
    ],
)
def test_answers_that_cannot_be(f: Any, n_classes: int | None, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        SmoothedClassifier(f, 0.5, n_classes).certify([[0.3, 0.4]])


def test_an_estimator_knows_its_classes() -> None:
    model = LogisticRegression().fit(away([-1.0, 1.0]), [0, 1])
    with pytest.raises(InvalidInputError, match="n_classes is 3 but"):
        SmoothedClassifier(model, 0.5, 3)


def test_corrections_that_cannot_be() -> None:
    smoothed = SmoothedClassifier(half_plane, 0.5, 2)
    for method, name in itertools.product(("predict", "certify"), ("Holm", "fdr")):
        with pytest.raises(InvalidInputError, match="unknown correction"):
            getattr(smoothed, method)([[0.0, 1.0]], correction=name)
    with pytest.raises(InvalidInputError, match="gives decisions, not radii"):
        smoothed.certify([[0.0, 1.0]], correction="holm")


N = 12


def ring(directed: bool = False) -> Graph:
    ahead = np.arange(N)
    forth = np.stack([ahead, (ahead + 1) % N])
    edges = forth if directed else np.hstack([forth, forth[::-1]])
    return Graph.of(torch.as_tensor(edges)).normalised("random_walk" if directed else "symmetric", self_loops="add")


def network(head: Any = "softmax", outputs: int = 3, dropout: float = 0.0) -> COIN:
    torch.manual_seed(0)
    return COIN(Residual(4, outputs), Diffusion(3, 0.2, dropout=dropout), head=head).double()


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(N, 4))


@pytest.mark.parametrize("directed", [False, True])
def test_a_vote_is_the_whole_network_with_one_row_replaced(x: np.ndarray, directed: bool) -> None:
    model, graph = network(), ring(directed)
    smoothed = SmoothedNodes(model, x, graph, 0.7, samples=40)
    nodes = np.array([5, 0, 5])
    points = smoothed._read(nodes)
    np.testing.assert_array_equal(points, x[nodes])
    for rows, owner in smoothed._noisy(points, 20, stream=1):
        votes = smoothed._vote(rows, owner)
        for row, point, vote in zip(rows, owner, votes, strict=True):
            changed = x.copy()
            changed[nodes[point]] = row
            with torch.no_grad():
                u = model(torch.as_tensor(changed), graph.laplacian(torch.float64))
            assert u[nodes[point]].argmax() == vote


def test_the_radius_of_a_network_that_is_linear_in_its_node(x: np.ndarray) -> None:
    """With two classes, a node flips where its own softmax passes a level, which is a hyperplane of its features."""
    model = COIN(torch.nn.Linear(4, 2), Diffusion(3, 0.2)).double()
    torch.manual_seed(1)
    torch.nn.init.normal_(model.convection.weight, std=1.5)
    graph = ring()
    smoothed = SmoothedNodes(model, x, graph, 0.5, samples=30_000, batch_size=2**16)
    found = smoothed.certify([0, 1, 2, 3, 4, 5])
    smoothed._read(np.arange(6))
    # P_ii s(x) + rest_0 = 1/2, solved for the logit difference.
    level = (0.5 - smoothed._others[:, 0]) / smoothed._own[:, 0]
    logit = torch.log(level / (1 - level)).numpy()
    weight = (model.convection.weight[0] - model.convection.weight[1]).detach().numpy()
    bias = float((model.convection.bias[0] - model.convection.bias[1]).detach())
    truth = np.abs(x[:6] @ weight + bias - logit) / np.linalg.norm(weight)
    decided = ~np.isnan(truth) & ~found.abstained
    assert decided.sum() >= 3
    assert (found.radius <= truth)[decided].all()
    near = decided & (truth < 1.0)  # beyond, so few votes differ that the bound is loose
    np.testing.assert_allclose(found.radius[near], truth[near], atol=0.05)
    # Where the neighbours decide alone, no vote differs.
    settled = np.isnan(truth)
    np.testing.assert_allclose(found.radius[settled], 0.5 * norm.ppf(0.001 ** (1 / 30_000)))


def test_all_nodes_by_default_and_an_answer_each(x: np.ndarray) -> None:
    smoothed = SmoothedNodes(network(), torch.as_tensor(x), ring(), 0.01, samples=50)
    with torch.no_grad():
        plain = network()(torch.as_tensor(x), ring().laplacian(torch.float64)).argmax(dim=1).numpy()
    answers = smoothed.predict()
    assert answers.shape == (N,)
    np.testing.assert_array_equal(answers[answers >= 0], plain[answers >= 0])
    assert (answers >= 0).mean() > 0.8
    assert smoothed.predict(3) == answers[3]


def test_a_sigmoid_tells_two_classes_apart(x: np.ndarray) -> None:
    model = network("sigmoid", 1)
    found = SmoothedNodes(model, x, ring(), 0.01, samples=50).certify()
    with torch.no_grad():
        u = model(torch.as_tensor(x), ring().laplacian(torch.float64))[:, 0].numpy()
    kept = ~found.abstained
    np.testing.assert_array_equal(found.labels[kept], (u > 0.5)[kept])


def test_dropout_does_not_vote_and_the_mode_stays(x: np.ndarray) -> None:
    model = network(dropout=0.5).train()
    votes = [SmoothedNodes(model, x, ring(), 0.5, samples=60).certify([1, 2]).votes.tolist() for _ in range(2)]
    assert model.training
    assert votes[0] == votes[1] == SmoothedNodes(network(), x, ring(), 0.5, samples=60).certify([1, 2]).votes.tolist()


@pytest.mark.parametrize("nodes", [[N], [-1], [0.5], [], [[0, 1]], "all"])
def test_nodes_that_are_not_there(x: np.ndarray, nodes: Any) -> None:
    with pytest.raises(InvalidInputError, match="nodes must be whole numbers from 0 to 11"):
        SmoothedNodes(network(), x, ring(), 0.5).certify(nodes)


def test_what_cannot_be_smoothed(x: np.ndarray) -> None:
    with pytest.raises(InvalidInputError, match="model must be a COIN"):
        SmoothedNodes(network("identity"), x, ring(), 0.5)
    with pytest.raises(InvalidInputError, match="model must be a COIN"):
        SmoothedNodes(torch.nn.Linear(4, 2), x, ring(), 0.5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="exactly one output"):
        SmoothedNodes(network("sigmoid", 2), x, ring(), 0.5)
    with pytest.raises(InvalidInputError, match="the graph has 12 nodes"):
        SmoothedNodes(network(), x[:5], ring(), 0.5)
