"""What holds for every method of the registry, whatever it does."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.tabular import METHODS, method, method_named
from condiff.reproduce.baselines.tabular.method import TabularMethod
from condiff.reproduce.baselines.tabular.problem import TabularProblem
from condiff.reproduce.published import methods as published_methods
from condiff.training import Training

FEWER: dict[str, dict[str, Any]] = {
    "P-NET": {"training": Training(learning_rate=0.02, weight_decay=0.0)},  # at its own rate it needs more epochs
    "COIN": {"n_neighbors": 8, "bandwidth_rank": 4},
    "COIN-averaged": {"n_neighbors": 8, "bandwidth_rank": 4, "pretrainings": 3},
    "COIN-chosen": {"n_neighbors": (8,), "pretrainings": 3},
}


def small(name: str, epochs: int = 3) -> TabularMethod:
    """The method with few epochs and few neighbours, if it has any."""
    made = replace(method(name)(), **FEWER.get(name, {}))
    training = getattr(made, "training", None)
    return made if training is None else replace(made, training=replace(training, epochs=epochs))  # type: ignore[call-arg]


def bytes_of(name: str, problem: TabularProblem, seed: int = 5) -> bytes:
    outcome = small(name).solve(problem, seed)
    return outcome.scores.numpy().tobytes() + str(outcome.threshold).encode()


def test_every_method_of_the_papers_table_is_there_under_its_name() -> None:
    assert {each.name for each in published_methods("prostate")} <= METHODS.keys()


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_a_frozen_dataclass_of_plain_settings(name: str) -> None:
    kind = method(name)
    assert issubclass(kind, TabularMethod)
    made = kind.recommended("p1000")
    assert type(made) is kind
    assert made == kind()
    assert json.loads(json.dumps(made.settings())) == json.loads(json.dumps(dataclasses.asdict(made)))
    hash(made)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(made, dataclasses.fields(kind)[0].name, None)


@pytest.mark.parametrize("name", METHODS)
def test_a_seed_gives_the_same_finite_scores_again(name: str, tiny_problem: TabularProblem) -> None:
    outcome = small(name).solve(tiny_problem, 5)
    assert outcome.scores.shape == (60,)
    assert outcome.scores.dtype == torch.float32
    assert not outcome.scores.requires_grad
    assert torch.isfinite(outcome.scores).all()
    assert outcome.epochs in (0, 3)
    assert outcome.seconds > 0
    assert bytes_of(name, tiny_problem) == bytes_of(name, tiny_problem)


@pytest.mark.parametrize("name", METHODS)
def test_no_label_but_the_training_patients_reaches_a_method(name: str, tiny_problem: TabularProblem) -> None:
    expected = bytes_of(name, tiny_problem)
    labels = tiny_problem.labels.clone()
    labels[tiny_problem.test] = torch.arange(tiny_problem.test.numel()) % 2
    assert bytes_of(name, replace(tiny_problem, labels=labels)) == expected
    if name != "COIN-chosen":  # which looks at the validation patients to choose
        labels[tiny_problem.validation] = 1 - labels[tiny_problem.validation]
        assert bytes_of(name, replace(tiny_problem, labels=labels)) == expected
    labels[tiny_problem.train] = 1 - labels[tiny_problem.train]
    assert bytes_of(name, replace(tiny_problem, labels=labels)) != expected


@pytest.mark.parametrize("name", METHODS)
def test_it_learns_what_is_there_to_learn(name: str, tiny_problem: TabularProblem) -> None:
    scores = small(name, 100).solve(tiny_problem, 0).scores.numpy()
    truth = np.arange(60) % 2
    assert roc_auc_score(truth[:10], scores[:10]) >= 0.9
    assert roc_auc_score(truth[20:], scores[20:]) > 0.7


def test_names_are_read_in_any_case_and_unknown_ones_suggest_a_near_one() -> None:
    assert method_named("random FOREST") == ("Random forest", method("Random forest"))
    with pytest.raises(InvalidInputError, match=r"unknown method 'PNET' \(did you mean 'P-NET'\?\)"):
        method("PNET")


def test_a_method_is_loaded_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "Broken", ("no_such_module", "Broken"))
    assert method("COIN").__name__ == "COIN"
    with pytest.raises(ModuleNotFoundError):
        method("Broken")
