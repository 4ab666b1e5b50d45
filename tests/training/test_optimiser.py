import subprocess
import sys

import pytest
import torch

from condiff.training import Training
from condiff.training.optimiser import Optimiser

SETTINGS = {
    "adam": Training("adam", 0.03, weight_decay=5e-4),
    "adam, plain": Training("adam", 0.01, weight_decay=0.0),
    "adamax": Training("adamax", 0.02, weight_decay=5e-3, milestones=(5,)),
    "adamax, plain": Training("adamax", 0.02, weight_decay=0.0),
    "rmsprop": Training("rmsprop", 0.005, weight_decay=5e-3, milestones=(4, 9)),
    "rmsprop, plain": Training("rmsprop", 0.005, weight_decay=0.0),
    "sgd with momentum": Training("sgd", 0.1, momentum=0.9, weight_decay=1e-4, milestones=(5, 8)),
    "sgd, plain": Training("sgd", 0.5, weight_decay=0.0, milestones=(3,), decay=0.5),
}


def run(step, parameters, epochs):
    target = torch.linspace(-1, 1, parameters[0].numel(), dtype=torch.float64).reshape(parameters[0].shape)
    for _ in range(epochs):
        loss = ((parameters[0] - target) ** 2).mean() + (parameters[1].sin() * parameters[0].mean()).sum()
        loss.backward()
        step()


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
def test_it_takes_the_steps_of_torch(settings: Training) -> None:
    check_steps(settings)


@pytest.mark.parametrize("name", ["adam", "adam, plain"])
def test_adam_takes_them_where_torch_has_no_fused_kernel(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch, "_fused_adam_")
    check_steps(SETTINGS[name])


def check_steps(settings: Training) -> None:
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(4, 3, generator=generator, dtype=torch.float64), torch.randn(2, dtype=torch.float64)]
    ours = [value.clone().requires_grad_() for value in start]
    theirs = [torch.nn.Parameter(value.clone()) for value in start]
    run(Optimiser(ours, settings).step, ours, 12)
    optimiser = settings.make_optimiser(theirs)
    schedule = settings.make_schedule(optimiser)

    def step() -> None:
        optimiser.step()
        schedule.step()
        optimiser.zero_grad()

    run(step, theirs, 12)
    for own, other, before in zip(ours, theirs, start, strict=True):
        torch.testing.assert_close(own.detach(), other.detach(), rtol=1e-11, atol=1e-13)
        assert not torch.allclose(own.detach(), before)


def test_a_parameter_without_gradient_stays_and_gradients_are_cleared() -> None:
    used, unused = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    optimiser = Optimiser([used, unused], SETTINGS["adam"])
    used.sum().backward()
    optimiser.step()
    assert used.grad is None
    assert torch.equal(unused.detach(), torch.ones(2))
    assert (used.detach() < 1).all()


def test_the_learning_rate_follows_the_milestones() -> None:
    parameter = torch.zeros(1, requires_grad=True)
    optimiser = Optimiser([parameter], Training("sgd", 1.0, weight_decay=0.0, milestones=(1, 3), decay=0.1))
    rates = []
    for _ in range(4):
        rates.append(optimiser.learning_rate)
        optimiser.step()
    assert rates == pytest.approx([1.0, 0.1, 0.1, 0.01])


def test_an_estimator_does_not_load_the_compiler_of_torch() -> None:
    # It takes seconds, more than the fit.
    code = (
        "import sys, numpy as np; from condiff import COINClassifier;"
        "COINClassifier(epochs=2).fit(np.arange(40.0).reshape(-1, 1), np.arange(40) // 20);"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
