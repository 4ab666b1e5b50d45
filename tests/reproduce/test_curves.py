"""Points of the curves against counting, and their means."""

from __future__ import annotations

import numpy as np
import pytest
from tests.reproduce.made_up import run

from condiff.reproduce.curves import PLACES, curve_points, mean_curve


def made(seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    truth = generator.integers(0, 2, 200)
    return truth, np.round(truth + generator.normal(size=200), 1)  # with ties


def counted(truth: np.ndarray, scores: np.ndarray) -> list[tuple[float, float, float]]:
    """False-positive rate, true-positive rate and precision at every threshold, from the highest."""
    found = []
    for threshold in sorted(set(scores), reverse=True):
        answered = scores >= threshold
        right = (answered & (truth == 1)).sum()
        found.append(
            (((answered & (truth == 0)).sum()) / (truth == 0).sum(), right / truth.sum(), right / answered.sum())
        )
    return found


@pytest.mark.parametrize("seed", range(3))
def test_points_are_those_of_counting(seed: int) -> None:
    truth, scores = made(seed)
    steps, points = counted(truth, scores), curve_points(truth, scores)
    assert len(points) == 2 * len(PLACES)
    false, true = ([0.0, *(step[place] for step in steps)] for place in (0, 1))
    for place in PLACES:
        assert points[f"roc_{place:02d}"] == pytest.approx(np.interp(place / 100, false, true), abs=1e-4)
        precision = next(step[2] for step in steps if step[1] >= place / 100)
        assert points[f"prc_{place:02d}"] == pytest.approx(precision, abs=1e-4)


def test_perfect_and_constant_scores() -> None:
    truth = np.array([0, 0, 0, 1])
    perfect = curve_points(truth, truth.astype(float))
    assert set(perfect.values()) == {1.0}
    constant = curve_points(truth, np.zeros(4))
    assert constant["roc_30"] == pytest.approx(0.3)
    assert constant["prc_30"] == pytest.approx(0.25)


def test_the_mean_is_over_all_runs_and_the_spread_over_splits() -> None:
    def with_level(level: float, split: int, init: int):
        points = {f"{kind}_{place:02d}": level for kind in ("roc", "prc") for place in PLACES}
        return run(split=split, init=init, metrics=points)

    runs = [with_level(0.2, 0, 0), with_level(0.4, 0, 1), with_level(0.9, 1, 0), run(split=2)]
    curve = mean_curve(runs, "prc")
    assert curve is not None
    np.testing.assert_allclose(curve.mean, 0.5)
    np.testing.assert_allclose(curve.spread, np.std([0.3, 0.9], ddof=1))
    assert (curve.splits, curve.runs) == (2, 3)
    np.testing.assert_allclose(curve.places, np.array(PLACES) / 100)
    single = mean_curve(runs[:1], "roc")
    assert single is not None
    assert not single.spread.any()


def test_runs_without_curves_have_none() -> None:
    assert mean_curve([run()], "roc") is None
