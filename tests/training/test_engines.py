"""Every engine does what the reference does, on every kind of problem that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.training.kinds import KINDS

from condiff.training import ENGINES, Engine, Fitted, Problem, fit
from condiff.training.engines import blocked, gram, streamed

FAST = {engine.name: engine for engine in ENGINES[:-1]}
#: Those with compiled loops.
COMPILED = {"blocked": blocked, "gram": gram, "streamed": streamed}
TAKEN = [(name, engine) for name, (_, engines) in KINDS.items() for engine in engines.split()]


@pytest.mark.parametrize("name", KINDS)
def test_an_engine_takes_what_it_can(name: str) -> None:
    make, engines = KINDS[name]
    taken = [engine.name for engine in FAST.values() if engine.refuses(make(torch.float64)) is None]
    assert taken == engines.split()


@pytest.mark.parametrize(("name", "engine"), TAKEN)
def test_it_does_what_the_reference_does(name: str, engine: str) -> None:
    check_against_reference(name, engine)


@pytest.mark.parametrize(("name", "engine"), [pair for pair in TAKEN if pair[1] in COMPILED])
def test_it_does_so_without_compiled_loops(name: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(COMPILED[engine], "available", lambda: False)
    check_against_reference(name, engine)


def check_against_reference(name: str, engine: str) -> None:
    make, _ = KINDS[name]
    # Weights are drawn in single precision, by torch or by a loop that rounds once less on some processors.
    most = 1e-8 if all(each.has_weights for each in make(torch.float64)) else 1e-5
    start = [each.with_weights().model for each in make(torch.float64)]
    fast, plain = fit(make(torch.float64), engine), fit(make(torch.float64), "reference")
    for one, other, before in zip(fast, plain, start, strict=True):
        assert one.engine == engine and one.best_epoch == other.best_epoch and not one.model.training
        np.testing.assert_allclose(one.losses, other.losses, rtol=most)
        apart(one, other, most)
        moved = zip(one.model.parameters(), before.parameters(), strict=True)
        assert max(float((own - first).detach().abs().max()) for own, first in moved) > 1e-3


@pytest.mark.parametrize(("name", "engine"), TAKEN)
def test_in_single_precision_to_its_rounding(name: str, engine: str) -> None:
    """Over a few epochs: Adam enlarges rounding where gradients are tiny, and early stopping may hang on it."""
    make, _ = KINDS[name]

    def short() -> list[Problem]:
        problems = make(torch.float32)
        settings = replace(problems[0].settings, epochs=8, patience=9)
        return [each.replace(settings=settings) for each in problems]

    for one, other in zip(fit(short(), engine), fit(short(), "reference"), strict=True):
        torch.testing.assert_close(one.outputs, other.outputs, rtol=0, atol=1e-3)


@pytest.mark.parametrize("name", [name for name, (make, _) in KINDS.items() if len(make(torch.float64)) > 1])
def test_networks_are_fitted_in_company_as_alone(name: str) -> None:
    make, engines = KINDS[name]
    engine = engines.split()[-1]
    together = fit(make(torch.float64), engine)
    for position in (len(together) - 1, 0):
        alone = fit(make(torch.float64)[position], engine)
        np.testing.assert_allclose(alone.losses, together[position].losses, rtol=1e-10)
        apart(alone, together[position], 1e-10)


def apart(one: Fitted, other: Fitted, most: float) -> None:
    """All that two fits leave behind must be the same, up to so much."""
    for (name, own), its in zip(one.model.named_parameters(), other.model.parameters(), strict=True):
        torch.testing.assert_close(own, its, rtol=0, atol=most, msg=lambda text, name=name: f"{name}: {text}")
    for what in ("base_outputs", "diffused", "outputs"):
        torch.testing.assert_close(getattr(one, what), getattr(other, what), rtol=0, atol=most)


@pytest.mark.parametrize("engine", FAST)
def test_every_epoch_is_reported_with_the_mean_loss(engine: str) -> None:
    make = next(make for make, engines in KINDS.values() if engine in engines.split())
    seen: list[tuple[int, float]] = []
    fitted = fit(make(torch.float64), engine, on_epoch=lambda epoch, loss: seen.append((epoch, loss)))
    losses: Sequence[float] = np.mean([each.losses for each in fitted], axis=0).tolist()
    assert [epoch for epoch, _ in seen] == list(range(len(losses)))
    np.testing.assert_allclose([loss for _, loss in seen], losses)


def test_the_reference_comes_last_and_refuses_nothing() -> None:
    *_, last = ENGINES
    assert last.name == "reference" and len({engine.name for engine in ENGINES}) == len(ENGINES)
    assert all(last.refuses(make(torch.float64)) is None for make, _ in KINDS.values())
    assert all(isinstance(engine, Engine) for engine in ENGINES)
