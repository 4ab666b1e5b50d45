from dataclasses import replace

import numpy as np
import pytest

from condiff.reproduce.ablation import claims
from condiff.reproduce.runs import Run


def _runs(accuracy, layers=(20, 40), strengths=(0.05, 0.1, 0.2, 0.3, 0.4, 0.6), splits=10, noise=0.1, shift=0.0):
    """Runs whose accuracy is a function of the total strength, with noise, and ``shift`` points more for few layers."""
    generator = np.random.default_rng(0)
    return [
        Run(
            "node", "rings", "COIN", {"layers": number, "strength": strength}, split, init,
            {"accuracy": accuracy(number * strength) + shift * (number == layers[0]) + noise * generator.normal()},
            1, 0.1, 1.0,
        )
        for number in layers for strength in strengths for split in range(splits) for init in range(2)
    ]  # fmt: skip


def _hill(total):
    return 80 - 3 * np.log(total / 6) ** 2


def test_a_broad_hill_and_layers_that_do_not_matter():
    optimum, *pairs = claims(_runs(_hill))
    assert optimum["holds"]
    assert optimum["layers"] == 40
    assert optimum["best_total"] in (4.0, 8.0)
    assert optimum["within_one_point_to"] / optimum["within_one_point_from"] >= 1.5
    assert [pair["total"] for pair in pairs] == [2.0, 4.0, 8.0, 12.0]
    assert all(pair["holds"] for pair in pairs)
    assert all(pair["interval_90"][0] < pair["difference"] < pair["interval_90"][1] for pair in pairs)


def test_a_needle_is_not_broad():
    assert not claims(_runs(lambda total: 80.0 - 40 * abs(np.log(total / 8))))[0]["holds"]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_slope_has_no_optimum_inside(sign):
    assert not claims(_runs(lambda total: 70 + sign * 0.1 * total))[0]["holds"]


def test_a_real_difference_between_layers_is_seen():
    pairs = claims(_runs(_hill, shift=1.0))[1:]
    assert not any(pair["holds"] for pair in pairs)
    assert all(pair["difference"] == pytest.approx(1.0, abs=0.2) for pair in pairs)


def test_too_much_noise_proves_nothing():
    assert not any(pair["holds"] for pair in claims(_runs(_hill, noise=5.0, splits=4))[1:])


def test_two_splits_are_too_few_for_a_verdict():
    assert len(claims(_runs(_hill, splits=2))) == 1


def test_sets_are_judged_apart():
    runs = _runs(_hill)
    other = [replace(run, dataset="moons") for run in runs]
    assert [claim["dataset"] for claim in claims(runs + other)] == ["rings"] * 5 + ["moons"] * 5
