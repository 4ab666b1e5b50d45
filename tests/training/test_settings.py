from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, asdict, replace

import pytest
import torch
from torch import nn

from condiff.errors import InvalidInputError
from condiff.training import COVID, FEW_SHOT, NODE, PROSTATE, Training

# From the paper's Materials and Methods; where it is silent (the most epochs), from the design.
PAPER = {
    "node": (
        NODE,
        {"optimiser": "adam", "learning_rate": 0.01, "weight_decay": 5e-4, "epochs": 10_000, "patience": 50},
    ),
    "few-shot": (
        FEW_SHOT,
        {"optimiser": "sgd", "learning_rate": 0.1, "momentum": 0.9, "weight_decay": 1e-4, "epochs": 100}
        | {"milestones": (50, 75), "decay": 0.1, "patience": None},
    ),
    "covid": (
        COVID,
        {"optimiser": "adam", "learning_rate": 0.01, "weight_decay": 5e-4, "epochs": 100, "milestones": ()}
        | {"patience": None},
    ),
    "prostate": (
        PROSTATE,
        {"optimiser": "sgd", "learning_rate": 1.0, "momentum": 0.0, "weight_decay": 5e-4, "epochs": 300}
        | {"milestones": (150, 225), "decay": 0.1, "patience": None},
    ),
}


def parameters() -> list[nn.Parameter]:
    return [nn.Parameter(torch.tensor([1.0, -2.0]))]


@pytest.mark.parametrize("task", PAPER)
def test_constants_are_the_papers(task: str) -> None:
    settings, expected = PAPER[task]
    assert {name: asdict(settings)[name] for name in expected} == expected


def test_node_settings_are_the_default() -> None:
    assert Training() == NODE


@pytest.mark.parametrize("settings", [FEW_SHOT, PROSTATE], ids=["few-shot", "prostate"])
def test_rate_falls_to_a_tenth_at_half_and_three_quarters(settings: Training) -> None:
    optimiser = settings.make_optimiser(parameters())
    schedule = settings.make_schedule(optimiser)
    rates = []
    for _ in range(settings.epochs):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        schedule.step()
    half, quarter, start = settings.epochs // 2, settings.epochs // 4, settings.learning_rate
    assert rates == pytest.approx([start] * half + [start / 10] * quarter + [start / 100] * quarter)


def test_rate_without_milestones_stays() -> None:
    optimiser = NODE.make_optimiser(parameters())
    schedule = NODE.make_schedule(optimiser)
    for _ in range(200):
        optimiser.step()
        schedule.step()
    assert optimiser.param_groups[0]["lr"] == 0.01


def test_decay_is_the_factor_at_a_milestone() -> None:
    settings = Training("sgd", 0.8, milestones=(1, 3), decay=0.5)
    optimiser = settings.make_optimiser(parameters())
    schedule = settings.make_schedule(optimiser)
    rates = []
    for _ in range(4):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        schedule.step()
    assert rates == pytest.approx([0.8, 0.4, 0.4, 0.2])


def test_adam_gets_rate_and_weight_decay() -> None:
    optimiser = Training("adam", 0.03, weight_decay=0.01).make_optimiser(parameters())
    assert type(optimiser) is torch.optim.Adam
    group = optimiser.param_groups[0]
    assert (group["lr"], group["weight_decay"], group["betas"], group["eps"]) == (0.03, 0.01, (0.9, 0.999), 1e-8)


@pytest.mark.parametrize(("name", "kind"), [("adamax", torch.optim.Adamax), ("rmsprop", torch.optim.RMSprop)])
def test_the_other_optimisers_get_rate_and_weight_decay(name: str, kind: type) -> None:
    optimiser = replace(NODE, optimiser=name, learning_rate=0.03, weight_decay=0.01).make_optimiser(parameters())
    assert type(optimiser) is kind
    assert (optimiser.param_groups[0]["lr"], optimiser.param_groups[0]["weight_decay"]) == (0.03, 0.01)


def test_sgd_step_is_momentum_with_decay() -> None:
    settings = Training("sgd", 0.1, momentum=0.9, weight_decay=0.5)
    (weight,) = made = parameters()
    optimiser = settings.make_optimiser(made)
    by_hand, speed = weight.detach().clone(), torch.zeros(2)
    for gradient in (torch.tensor([1.0, 2.0]), torch.tensor([-3.0, 0.5])):
        weight.grad = gradient.clone()
        optimiser.step()
        speed = 0.9 * speed + gradient + 0.5 * by_hand
        by_hand = by_hand - 0.1 * speed
        torch.testing.assert_close(weight.detach(), by_hand)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("optimiser", "adamw"),
        ("epochs", 0),
        ("learning_rate", 0.0),
        ("learning_rate", -0.1),
        ("learning_rate", math.nan),
        ("learning_rate", math.inf),
        ("momentum", -0.1),
        ("momentum", 1.0),
        ("weight_decay", -1e-4),
        ("weight_decay", math.nan),
        ("decay", 0.0),
        ("decay", math.inf),
        ("milestones", (0, 50)),
        ("patience", 0),
        ("patience", -1),
    ],
)
def test_unusable_value_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(InvalidInputError, match=name):
        replace(NODE, **{name: value})


def test_settings_are_values() -> None:
    assert replace(NODE, weight_decay=0.01) == Training(weight_decay=0.01) != NODE
    assert len({NODE, Training(), FEW_SHOT}) == 2
    with pytest.raises(FrozenInstanceError):
        NODE.epochs = 3  # type: ignore[misc]
