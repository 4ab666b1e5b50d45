"""The protocol: which entries are hidden, what a method may see, and how a run is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.temporal import method
from condiff.reproduce.baselines.temporal.method import TemporalMethod
from condiff.reproduce.datasets.panel import Panel
from condiff.reproduce.protocol import Job, jobs
from condiff.reproduce.protocols import covid
from condiff.reproduce.published import published
from condiff.reproduce.runs import Condition, Key
from condiff.training.settings import COVID

LAGS = 3


def small(days: int = 23, regions: int = 9, seed: int = 0) -> Panel:
    random = np.random.default_rng(seed)
    values = random.poisson(20, (days, regions)).astype(float)
    graphs = [sp.csr_array(random.random((regions, regions)) * (random.random((regions, regions)) < 0.4))] * days
    return Panel(values, tuple(graphs))


def quick(name: str) -> TemporalMethod:
    made = method(name)()
    return replace(made, training=replace(COVID, epochs=5)) if hasattr(made, "training") else made


def work(methods, masks=None, inits=10, rate=0.9, causal=False) -> list[Job]:
    case = covid.case_of(rate, causal=causal)
    return jobs(covid.Covid(), case, methods, dict.fromkeys(masks or covid.mask_seeds()), inits)


def test_headings_and_the_published_table() -> None:
    protocol, paper = covid.Covid(), Condition(missing=0.9, causal=False)
    assert protocol.describe("england", paper) == ("England", "90 % missing")
    assert protocol.describe("england", Condition(missing=0.125, causal=True)) == (
        "England",
        "12.5 % missing",
        "causal",
    )
    place = protocol.published_as("england", paper)
    assert place is not None and published("covid", place[0], "COIN", "mse") is not None
    assert protocol.published_as("england", Condition(paper, causal=True)) is None
    assert protocol.published_as("england", Condition(paper, missing=0.8)) is None


def test_what_is_asked_for(data_root: Path) -> None:
    found = covid.Covid().jobs(covid.CovidOptions(method="All-Zero,COIN", splits=2))
    assert len(found) == 2 * 2 * 10
    assert {job.key.condition for job in found} == {Condition(missing=0.9, causal=False)}
    causal = covid.Covid().jobs(covid.CovidOptions(method="All-Zero", missing=0.5, causal=True))
    assert {(job.key.dataset, job.key.condition) for job in causal} == {
        ("england", Condition(missing=0.5, causal=True))
    }
    assert len(causal) == 100  # the paper's ten masks and ten initialisations


def test_the_masks_are_those_of_the_papers_authors() -> None:
    seeds = [121958, 671155, 131932, 365838, 259178, 644167, 110268, 732180, 54886, 137337]
    assert covid.mask_seeds() == seeds
    assert covid.mask_seeds(3) == seeds[:3]
    assert covid.mask_seeds(12)[:10] == seeds
    with pytest.raises(InvalidInputError, match="at least 1 mask"):
        covid.mask_seeds(0)


def test_a_method_sees_what_the_mask_leaves_and_no_target_of_a_test() -> None:
    panel = small()
    made = covid.problem(panel, 0.5, 7, lags=LAGS)
    masked = panel.hidden(0.5, 7).values
    np.testing.assert_array_equal(made.history, masked[:-1])
    assert (made.train, made.validation, made.test) == (slice(0, 4), slice(4, 8), slice(8, 20))
    np.testing.assert_array_equal(made.targets[:8], masked[LAGS:][:8])
    assert np.isnan(made.targets[8:]).all()
    np.testing.assert_array_equal(covid.truth(panel, lags=LAGS), panel.values[LAGS + 8 :])
    # The graph of a snapshot is that of its first day.
    assert [graph is panel.weights[day] for day, graph in enumerate(made.graphs.weights)] == [True] * 20


def test_masks_share_the_graphs() -> None:
    panel = small()
    first, second = (covid.problem(panel, 0.5, seed, lags=LAGS) for seed in (1, 2))
    assert first.graphs is second.graphs


@pytest.mark.parametrize("name", ["LR", "GCN", "EvolveGCN", "COIN", "LastValue"])
def test_values_that_are_hidden_change_nothing(name: str) -> None:
    panel = small()
    hidden = np.isnan(panel.hidden(0.5, 7).values)
    other = replace(panel, values=np.where(hidden, 50 + panel.values, panel.values))
    problems = [covid.problem(each, 0.5, 7, lags=LAGS) for each in (panel, other)]
    one, two = (quick(name).solve(each, 0).predictions for each in problems)
    assert torch.equal(one, two)


def test_only_the_paper_protocol_looks_ahead() -> None:
    panel = small()
    first_test = LAGS + 8
    later = panel.values.copy()
    later[first_test:][np.isnan(panel.hidden(0.5, 7).values[first_test:])] *= 3  # hidden values of test days
    for days, equal in ((None, False), (LAGS + 4, True)):
        problems = [
            covid.problem(replace(panel, values=values).standardised(days), 0.5, 7, lags=LAGS)
            for values in (panel.values, later)
        ]
        one, two = (quick("GCN").solve(each, 0).predictions for each in problems)
        assert torch.equal(one, two) is equal


def test_the_causal_variant_is_standardised_by_the_days_of_training(data_root: Path) -> None:
    paper, causal = covid.load(), covid.load(causal=True)
    np.testing.assert_allclose(paper.values.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(causal.values[:18].mean(axis=0), 0, atol=1e-12)
    assert abs(causal.values.mean()) > 0.5
    assert covid.fingerprint(paper) != covid.fingerprint(causal)


def test_the_fingerprint_tells_values_and_graphs_apart() -> None:
    panel = small()
    values = panel.values.copy()
    values[0, 0] = np.nan
    others = [replace(panel, values=values), replace(panel, weights=(2 * panel.weights[0], *panel.weights[1:]))]
    assert covid.fingerprint(panel) == covid.fingerprint(small())
    assert len({covid.fingerprint(each) for each in (panel, *others)}) == 3


def test_jobs_are_known_by_what_decides_their_outcome(data_root: Path) -> None:
    methods = {"LR": method("LR")(), "COIN": quick("COIN")}
    made = work(methods, [5, 6], 2)
    assert [(job.seed, job.name, job.init) for job in made][:5] == [
        (5, "LR", 0),
        (5, "LR", 1),
        (5, "COIN", 0),
        (5, "COIN", 1),
        (6, "LR", 0),
    ]
    more = [*made, *work(methods, [5, 6], 2, rate=0.8), *work(methods, [5, 6], 2, causal=True)]
    assert len({job.key.digest for job in more}) == 24
    known, condition = covid.fingerprint(covid.load()), Condition(missing=0.9, causal=False)
    assert made[0].key == Key("covid", "england", "LR", {}, 5, 0, known, condition)
    assert [job.seed for job in work({"LR": method("LR")()}, inits=1)] == covid.mask_seeds()


def test_a_run_is_judged_by_the_true_values(data_root: Path) -> None:
    job = work({"COIN": quick("COIN")}, [5], 1)[0]
    run = job.run()
    errors = job.solve().predictions.numpy() - covid.truth(covid.load())
    assert errors.shape == (33, 129)
    assert run.metrics == {
        "mse": pytest.approx(float((errors**2).mean())),
        "mae": pytest.approx(float(np.abs(errors).mean())),
    }
    assert (run.task, run.dataset, run.method, run.split, run.init) == ("covid", "england", "COIN", 5, 0)
    assert (run.epochs, run.settings) == (5, job.key.settings)
    again = job.run()
    assert again.metrics == run.metrics
    other = work({"COIN": quick("COIN")}, [5], 2)[1].run()
    assert other.metrics["mse"] != run.metrics["mse"]


def test_what_is_not_random_agrees_with_the_paper_to_the_last_digit(data_root: Path) -> None:
    truth = covid.truth(covid.load())
    found: dict[str, list[float]] = {"All-Zero": [], "LR": []}
    for job in work({name: method(name)() for name in found}, inits=1):
        found[job.name].append(float(((job.solve().predictions.double().numpy() - truth) ** 2).mean()))
    assert {len(errors) for errors in found.values()} == {10}
    assert round(np.mean(found["All-Zero"]), 4) == 0.8197
    assert (round(np.mean(found["LR"]), 4), round(np.std(found["LR"]), 4)) == (0.8344, 0.0769)


@pytest.mark.parametrize("causal", [False, True])
def test_forecasts_for_a_picture_are_in_cases(data_root: Path, causal: bool) -> None:
    made = work({"All-Zero": method("All-Zero")(), "MLP": quick("MLP")}, [5], 2, causal=causal)
    shown = covid.forecasts(made)
    assert shown.values.shape == shown.known.shape == (61, 129)
    assert shown.known.sum() == 61 * 129 - int(0.9 * 61 * 129)
    assert shown.test_days.tolist() == list(range(28, 61))
    assert (shown.train_days, shown.name_of(3)) == (18, "region 3")
    # Zero is the region's mean over the days that it was standardised by.
    mean = shown.values[: 18 if causal else None].mean(axis=0)
    np.testing.assert_allclose(shown.forecasts["All-Zero"], np.tile(mean, (33, 1)), atol=1e-9)
    inits = [job.solve().predictions.double().numpy() for job in made if job.name == "MLP"]
    standardised = covid.load(causal=causal).values
    slope = (shown.values[30] - shown.values[20])[standardised[30] != standardised[20]] / (
        standardised[30] - standardised[20]
    )[standardised[30] != standardised[20]]
    found = (shown.forecasts["MLP"] - mean)[:, standardised[30] != standardised[20]]
    expected = np.mean(inits, axis=0)[:, standardised[30] != standardised[20]] * slope
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_forecasts_of_several_masks_do_not_go_together(data_root: Path) -> None:
    made = work({"All-Zero": method("All-Zero")()}, [5, 6], 1)
    with pytest.raises(InvalidInputError, match="under one mask"):
        covid.forecasts(made)
