"""What is particular to few-shot tasks in Gram space; the numbers are compared in test_engines.py."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.training.kinds import tasks

from condiff.training import FEW_SHOT, Problem, fit
from condiff.training.engines import gram

SHORT = replace(FEW_SHOT, epochs=10)


@pytest.fixture(params=["compiled", "torch"], autouse=True)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to train in Gram space."""
    if request.param == "torch":
        monkeypatch.setattr(gram, "available", lambda: False)
    else:
        pytest.importorskip("numba")


def short(drawn: bool = True) -> list[Problem]:
    return [each.replace(settings=SHORT) for each in tasks(drawn)(torch.float32)]


def test_weights_of_inputs_that_repeat() -> None:
    [first, *_] = tasks(True)(torch.float64)
    start = first.model.convection.blocks[0].weight.detach().clone()  # type: ignore[index, union-attr]
    doubled = torch.cat([first.dense_x[:15], first.dense_x[:15]])
    fitted = fit(first.replace(x=doubled, settings=replace(FEW_SHOT, epochs=5)), "gram")
    moved = (fitted.model.convection.blocks[0].weight - start).abs().max()  # type: ignore[index, union-attr]
    assert torch.isfinite(moved) and moved < 1


def test_tasks_do_not_see_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    together = [each.base_outputs for each in fit(short(), "gram")]
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        threaded = [each.base_outputs for each in fit(short(), "gram")]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    monkeypatch.setattr(gram, "_ROOM", 0)  # one task at a time
    alone = [each.base_outputs for each in fit(short(), "gram")]
    for one, two, three in zip(together, threaded, alone, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-6)
        torch.testing.assert_close(one, three, rtol=0, atol=1e-6)


def test_a_network_is_made_whole_only_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    draw = Problem.with_weights
    monkeypatch.setattr(Problem, "with_weights", lambda self: made.append(1) or draw(self))  # type: ignore[func-returns-value]
    [first, *_] = fit(short(drawn=False), "gram")
    assert first.base_outputs.shape == first.diffused.shape == (30, 3) and not made
    assert not first.problem.has_weights
    torch.testing.assert_close(first.model.base(first.problem.dense_x), first.base_outputs, rtol=0, atol=1e-5)
    assert made


def test_any_strength_that_a_graph_asks_for() -> None:
    """With ``auto`` every task has a strength of its own."""
    problems = [each.replace(model=network) for each, network in zip(short(), auto(), strict=True)]
    copies = [each.replace(model=network) for each, network in zip(short(), auto(), strict=True)]
    pairs = zip(fit(problems, "gram"), fit(copies, "reference"), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one.diffused, other.diffused, rtol=0, atol=1e-5)


def auto() -> list[torch.nn.Module]:
    models = [each.model for each in tasks(True)(torch.float32)]
    for model in models:
        model.diffusion.strength = "auto"
    return list(models)


def test_tasks_of_different_shapes_are_refused() -> None:
    first, second, *_ = short()
    assert gram.Gram().refuses([first, second.replace(train=range(5))]) == "the tasks are not of one shape"
    weighted = first.replace(sample_weight=torch.arange(1.0, 7))
    assert gram.Gram().refuses([weighted]) == "labels have weights of their own"
