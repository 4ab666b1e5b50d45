"""The protocol that compares forecasts of panels with holes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.forecast.methods import QUANTILES, Outcome
from condiff.reproduce.datasets import series_panels
from condiff.reproduce.datasets.series_panels import PANELS, PanelSource, load_panel, missing_package
from condiff.reproduce.protocols import protocol
from condiff.reproduce.protocols.forecast import ForecastOptions, hidden_values, origins, tables
from condiff.reproduce.runs import Condition, Run


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> str:
    """A panel that needs no package."""
    random = np.random.default_rng(0)
    values = random.normal(size=(60, 4)).cumsum(axis=0)
    source = PanelSource("data root", "made up", 60, 4, (), "unseen", "made up")
    monkeypatch.setattr(series_panels, "PANELS", {"walks": source})
    monkeypatch.setattr("condiff.reproduce.protocols.forecast.PANELS", {"walks": source})
    monkeypatch.setattr(series_panels, "_READERS", {"data root": lambda _: (values, None)})
    load_panel.cache_clear()
    yield "walks"
    load_panel.cache_clear()


WITH_GRAPHS = ("england", "heights", "income", "cigarettes", "sst", "brain")
QUICK = "COIN,last value,linear,mean"


def test_runs_tables_and_what_they_say(made_up: str) -> None:
    found = protocol("forecast")
    options = ForecastOptions(panels=made_up, method=QUICK, rates="0,0.5", windows=2, horizon="1,5")
    jobs = found.jobs(options)
    assert [job.seed for job in jobs] == sorted(job.seed for job in jobs)
    assert len(jobs) == 2 * (2 * 2 * 2 + 2)  # forecasts at both rates and horizons, holes filled at one rate
    runs = [job.run() for job in jobs]
    for run in runs:
        assert run.metrics["mase"] > 0
        assert ("coverage_80" in run.metrics) == (run.condition["task"] == "forecast")
    text = found.texts(runs)["README.md"]
    assert "| walks | 50 % |" in text and "holes filled: panels only reported" in text and "**" in text
    assert "## Forecasts 1 step ahead: errors" in text and "Of 4 cells" in text
    assert found.summarise(runs)


def test_slow_methods_have_a_table_of_their_own_and_do_not_cut_the_others(made_up: str) -> None:
    def run(method: str, split: int, mase: float, coverage: float = 80.0) -> Run:
        metrics = {"mase": mase, "coverage_80": coverage, "coverage_95": 95.0}
        condition = Condition(task="forecast", hidden=0.5, horizon=1)
        return Run("forecast", made_up, method, {}, split, 0, metrics, 0, 0.0, 0.0, condition)

    own = [run("COIN", split, 1.0 + split, 70.0 + 10 * split) for split in range(3)]
    others = [run(name, split, 4.0) for name in ("last value", "AutoETS") for split in range(3)]
    found = tables([*own, *others, run("AutoARIMA", 0, 3.0)])
    assert found["Forecasts 1 step ahead: errors"][2] == "| 50 % | 1 | **2.000** | 4.000 | 4.000 |"
    assert found["Beside AutoARIMA"][2] == "| 1 | 50 % | 1 | **1.000** | 4.000 | 4.000 | 3.000 |"
    assert found["How much of the truth intervals hold"][2] == "| 1 | 50 % | 1 | 3 | 80.0 | 95.0 |"
    assert "Beside learned imputers" not in found


def test_hidden_truth_changes_the_judgement_alone(made_up: str) -> None:
    found = protocol("forecast")
    options = ForecastOptions(panels=made_up, method="drift", task="forecast", rates="0.6", windows=1, horizon="5")
    (job,) = found.jobs(options)
    problem = found.problem(job.case, job.seed, job.split)
    assert len(problem.values) == 46 and 0.4 < np.isnan(problem.values).mean() < 0.7
    assert (np.isfinite(problem.values).sum(axis=0) >= 2).all()
    np.testing.assert_array_equal(problem.values, hidden_values(job.case, job.split))
    truth = load_panel(made_up).values[46:51]
    spread = np.array(QUANTILES)[:, None, None] - 0.5
    perfect = found.measure(job, Outcome(truth, truth + spread, 0.0))
    assert (perfect["mase"], perfect["coverage_80"]) == (0.0, 100.0)
    off = found.measure(job, Outcome(truth + 1, truth + 10 + spread, 0.0))
    assert off["mase"] > 0.5 and off["coverage_95"] == 0.0 and off["pinball"] > perfect["pinball"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"panels": "engand"}, "did you mean 'england'"),
        ({"rates": "0,1"}, "--rates are numbers from 0 to below 1"),
        ({"rates": "half"}, "--rates are numbers"),
        ({"horizon": "1,99"}, "--horizon is numbers from 1 to 14"),
        ({"task": "guess"}, "--task must be forecast, impute or all"),
    ],
)
def test_what_it_cannot_run_is_one_line(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        ForecastOptions(**options)


@pytest.mark.parametrize("name", PANELS)
def test_panels_are_as_they_are_described(name: str, request: pytest.FixtureRequest) -> None:
    source = PANELS[name]
    if source.package == "data root":
        assert isinstance(request.getfixturevalue("data_root"), Path)
    if missing_package(name):
        pytest.skip(missing_package(name))
    panel = load_panel(name)
    assert panel.values.shape == (source.steps, source.series)
    assert np.isfinite(panel.values).mean() > 0.95
    assert (panel.graphs is not None) == source.has_graph == (name in WITH_GRAPHS)


def test_windows_leave_room_for_the_longest_horizon_and_end_with_the_panel() -> None:
    assert origins(300, 3) == [286, 272, 258]
    assert origins(61, 2) == [47, 40]  # a short panel: half a horizon apart
    assert origins(30, 9) == [23, 20, 17, 14, 11, 8, 5]
