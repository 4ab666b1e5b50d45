"""Which engine is taken, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.training.kinds import ADAM, KINDS, N, chosen, labels, network, node, ring, words
from torch import nn

from condiff.diffusion import Diffusion
from condiff.errors import InvalidInputError
from condiff.model import COIN
from condiff.training import Problem, fit
from condiff.training.engines import streamed
from condiff.training.fitting import _chosen

TAKEN = {
    "words, early stopping": "blocked",
    "words, masks": "blocked",
    "words, weights": "blocked",
    "words, all epochs": "projected",
    "words, momentum": "projected",  # there are more points than features
    "dense, early stopping": "projected",
    "dense": "projected",
    "folds with a penalty": "projected",
    "two blocks": "reference",
    "tasks": "gram",
    "genes": "genewise",
    "panel, dropout": "panel",
    "directed": "reference",
    "dropout": "reference",
    "learned strength": "reference",
    "a penalty of its own": "reference",
}


@pytest.mark.parametrize("name", TAKEN)
def test_the_first_engine_that_neither_refuses_nor_declines_is_taken(name: str) -> None:
    engine, reason, lines = _chosen(KINDS[name][0](torch.float64), "auto")
    assert engine.name == TAKEN[name] and reason
    assert all(line.startswith("[condiff] not ") and not line.endswith(": ") for line in lines)


def test_verbose_says_which_engine_fits_and_why_the_others_do_not(capsys: pytest.CaptureFixture[str]) -> None:
    fitted = fit(node("dense", ADAM)(torch.float64)[0], verbose=True)
    assert capsys.readouterr().out.splitlines() == [
        "[condiff] engine projected: the diffusion is fixed: only its rows at the labels are needed",
        "[condiff] not genewise: the base network is not gene-wise",
        "[condiff] not panel: there is no batch of graphs",
        "[condiff] not blocked: the features are dense",
        "[condiff] not streamed: the graph is small enough for all nodes at once",
        "[condiff] not narrow: the base network has no narrow hidden layer",
        "[condiff] not gram: it is for gradient descent (sgd), not adam",
        "[condiff] not written: it rounds otherwise than projected, by which figures were made",
    ]
    assert (fitted.engine, fitted.reason) == (
        "projected",
        "the diffusion is fixed: only its rows at the labels are needed",
    )


def test_problems_that_no_engine_takes_together_are_fitted_one_by_one() -> None:
    problems = [*node()(torch.float64), *KINDS["genes"][0](torch.float64)[:1]]
    assert [each.engine for each in fit(problems)] == ["blocked", "genewise"]


def test_large_graphs_are_streamed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def engine(**changes: Any) -> str:
        given = {"model": network(0, torch.float64), "settings": ADAM} | changes
        return _chosen([Problem(x=words(), graph=ring(), target=labels(), train=chosen()[:9], **given)], "auto")[0].name

    monkeypatch.setattr(streamed, "available", lambda: True)
    monkeypatch.setattr(streamed, "STREAMED_FROM", N + 1)
    assert engine() == "projected"
    monkeypatch.setattr(streamed, "STREAMED_FROM", N)
    assert engine() == "streamed"
    monkeypatch.setattr(streamed, "available", lambda: False)
    assert engine() == "projected"
    monkeypatch.setattr(streamed, "LARGEST_ROWS", 1000)
    assert engine() == "streamed"
    noisy = COIN(nn.Sequential(nn.Linear(words().shape[1], 3), nn.Dropout(0.5)), Diffusion(2, 0.1)).double()
    assert engine(model=noisy) == "reference"
    fit(node("dense", ADAM)(torch.float64)[0], verbose=True)
    assert "engine streamed: the diffusion's rows at the labels would take 0.0 GB" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "engine", "message"),
    [
        ("dense", "quantum", "unknown engine 'quantum': the engines are auto, genewise, "),
        ("dense", "blokced", "did you mean 'blocked'"),
        ("dense", "gram", "the engine gram cannot fit this: it is for gradient descent"),
        ("dense", "genewise", "cannot fit this: the base network is not gene-wise"),
        ("dense", "panel", "there is no batch of graphs"),
        ("bottleneck", "blocked", "not one ReLU block as wide as its input"),
        ("bottleneck", "projected", "not a single residual block"),
        ("directed", "projected", "the graph is not symmetric"),
        ("dropout", "streamed", "dropout or a learned strength"),
        ("learned strength", "blocked", "dropout or a learned strength"),
        ("a penalty of its own", "streamed", "the loss has a penalty of its own"),
        ("panel", "projected", "not a single residual block"),
        ("panel", "streamed", "there is a batch of graphs"),
    ],
)
def test_an_engine_that_is_asked_for_says_what_it_cannot_do(name: str, engine: str, message: str) -> None:
    problems = KINDS[name][0](torch.float64)
    before = [own.detach().clone() for own in problems[0].model.parameters()]
    with pytest.raises(InvalidInputError, match=message):
        fit(problems, engine)
    assert all(torch.equal(*pair) for pair in zip(before, problems[0].model.parameters(), strict=True))


def test_what_cannot_be_fitted_side_by_side_is_refused() -> None:
    def problem(**changes: Any) -> Problem:
        given = {"model": network(0, torch.float64), "x": words(), "graph": ring(), "settings": ADAM} | changes
        return Problem(target=labels(), train=chosen()[:9], **given)

    first = problem()
    early = KINDS["dense, early stopping"][0](torch.float64)[0]
    for other, message in (
        (problem(x=words().clone()), "different features"),
        (first.replace(graph=ring()), "different graphs"),
        (first.replace(settings=early.settings), "different settings"),
        (first.replace(model=network(0, torch.float64, layers=3)), "not alike but for their weights"),
        (first.replace(model=network(0, torch.float32)), "not alike but for their weights"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            fit([first, other], "projected")
    with pytest.raises(InvalidInputError, match="one at a time"):
        fit([early, early.replace(model=network(1, torch.float64))], "projected")
    with pytest.raises(InvalidInputError, match="no network to fit"):
        fit([])
