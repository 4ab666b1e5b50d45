from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from condiff.reproduce import robustness
from condiff.reproduce.robustness import METHODS, Protocol, certified_curve, curves, with_noisy_copies

SMALL = Protocol(points=30, samples=60, selection_samples=10, alpha=0.01)


def test_a_curve_falls_from_the_smoothed_accuracy_to_nothing() -> None:
    row = certified_curve("COIN", 0.25, SMALL)
    shares = np.array(row["certified_accuracy"])
    assert (np.diff(shares) <= 0).all()
    assert 0.8 <= shares[0] <= 1 - row["abstained"]
    assert shares[-1] == 0
    assert len(row["radii"]) == len(shares)
    # The area under the curve is the mean radius of right answers.
    step = row["radii"][1]
    assert shares.sum() * step == pytest.approx(row["mean_radius"], abs=step)
    assert (row["points"], row["samples"], row["noise"]) == (30, 60, 0.25)
    assert row["accuracy_without_smoothing"] > 0.8


def test_diffusion_adds_radius_and_the_same_seed_the_same_row() -> None:
    network, coin, again = (certified_curve(name, 0.4, SMALL) for name in ("network", "COIN", "COIN"))
    assert coin["mean_radius"] > network["mean_radius"]
    assert coin == again


def test_noisy_copies_keep_rows_and_labels() -> None:
    X = np.arange(12.0).reshape(4, 3)
    labels = np.array([-1, 5, -1, 7])
    more, their = with_noisy_copies(X, labels, 0.1, seed=0)
    np.testing.assert_array_equal(more[:4], X)
    np.testing.assert_array_equal(their[:4], labels)
    assert np.bincount(their[4:])[[5, 7]].tolist() == [robustness.COPIES] * 2
    for label, row in ((5, 1), (7, 3)):
        copies = more[4:][their[4:] == label]
        assert len(np.unique(copies, axis=0)) == robustness.COPIES
        assert np.abs(copies - X[row]).max() < 0.6
        assert copies.std() > 0


def test_what_is_certified_is_held_out_of_the_fit() -> None:
    fit_on, truth, held_out, answers = robustness._split(SMALL)
    assert (len(fit_on), len(held_out)) == (1767, 30)
    X, y = load_digits(return_X_y=True)
    assert sorted([*truth, *answers]) == sorted(y)
    assert fit_on.max() == 1.0
    rows = {row.tobytes() for row in fit_on}
    assert not any(row.tobytes() in rows for row in held_out)
    assert X.max() == 16


def test_every_noise_and_method_has_its_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robustness, "certified_curve", lambda method, noise, protocol: (method, noise, protocol.points))
    found = list(curves((0.1, 0.2), SMALL))
    assert found == [(method, noise, 30) for noise in (0.1, 0.2) for method in METHODS]
