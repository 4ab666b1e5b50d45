import dataclasses

import pytest
import torch

from condiff.errors import InvalidInputError
from condiff.graph import DenseLaplacian
from condiff.graph.batch import kernel_laplacians
from condiff.model import COIN
from condiff.training import FEW_SHOT, gram
from condiff.training.gram import batch_size, fit_gram, fit_tasks
from condiff.training.reference import fit

# Features that fill no whole number of blocks.
TASKS, POINTS, FEATURES, CLASSES = 4, 30, 100, 3
LABELS = torch.arange(POINTS) % CLASSES
LABELLED = torch.arange(6)


@pytest.fixture(params=["compiled", "torch"])
def kind(request, monkeypatch):
    """Both ways to train in Gram space."""
    if request.param == "torch":
        monkeypatch.setattr(gram, "is_available", lambda: False)
    else:
        pytest.importorskip("numba")
    return request.param


def _tasks(dtype=torch.float64):
    generator = torch.Generator().manual_seed(5)
    centres = torch.randn(TASKS, CLASSES, FEATURES, generator=generator, dtype=dtype)
    x = centres[:, LABELS] + torch.randn(TASKS, POINTS, FEATURES, generator=generator, dtype=dtype)
    x = torch.nn.functional.normalize(x, dim=-1)
    operator = kernel_laplacians(x)
    diffusion = _network().diffusion
    eye = torch.eye(POINTS, dtype=dtype).expand(TASKS, -1, -1)
    return x, operator, diffusion(eye, operator)


def _network(seed=0, dtype=torch.float64):
    torch.manual_seed(seed)
    return COIN.build(FEATURES, CLASSES, layers=6, strength=0.4).to(dtype)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-9), (torch.float32, 1e-5)])
def test_every_task_is_the_reference_fit(kind, dtype, tolerance):
    x, operator, spread = _tasks(dtype)
    seeds = [11, 12, 13, 14]
    target = LABELS[LABELLED].expand(TASKS, -1)
    u = fit_tasks(x, spread[:, LABELLED], target, CLASSES, seeds=seeds, settings=FEW_SHOT)
    for task in range(TASKS):
        model = _network(seeds[task], dtype)
        before = model.base(x[task]).detach()
        fit(model, x[task], DenseLaplacian(operator.weights[task]), LABELS, LABELLED, settings=FEW_SHOT)
        expected = model.base(x[task]).detach()
        torch.testing.assert_close(u[task], expected, rtol=0, atol=tolerance)
        assert (expected - before).abs().max() > 0.05


def test_one_network_with_its_weights(kind):
    x, operator, spread = _tasks()
    settings = dataclasses.replace(FEW_SHOT, weight_decay=0.01, epochs=40, milestones=(10, 25))
    fast, plain = _network(3), _network(3)
    found = fit_gram(fast, x[0], spread[0, LABELLED], LABELS[LABELLED], settings=settings)
    expected = fit(plain, x[0], DenseLaplacian(operator.weights[0]), LABELS, LABELLED, settings=settings)
    torch.testing.assert_close(torch.tensor(found.losses), torch.tensor(expected.losses), rtol=1e-9, atol=0)
    assert found.best_epoch == expected.best_epoch
    for own, other in zip(fast.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-7, atol=1e-9)


def test_weights_of_inputs_that_repeat(kind):
    x, _, spread = _tasks()
    doubled = torch.cat([x[0, :15], x[0, :15]])
    fast, start = _network(3), _network(3)
    fit_gram(fast, doubled, spread[0, LABELLED], LABELS[LABELLED], settings=dataclasses.replace(FEW_SHOT, epochs=5))
    moved = (fast.convection.blocks[0].weight - start.convection.blocks[0].weight).abs().max()
    assert torch.isfinite(moved) and moved < 1


def test_tasks_do_not_see_each_other(kind, monkeypatch):
    x, _, spread = _tasks(torch.float32)
    target = LABELS[LABELLED].expand(TASKS, -1)
    arguments = {"settings": dataclasses.replace(FEW_SHOT, epochs=10)}
    together = fit_tasks(x, spread[:, LABELLED], target, CLASSES, seeds=[1, 2, 3, 4], **arguments)
    monkeypatch.setattr(gram, "_ROOM", 0)
    assert batch_size(x) == 1
    alone = fit_tasks(x, spread[:, LABELLED], target, CLASSES, seeds=[1, 2, 3, 4], **arguments)
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-6)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        threaded = fit_tasks(x, spread[:, LABELLED], target, CLASSES, seeds=[1, 2, 3, 4], **arguments)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(together, threaded, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": dataclasses.replace(FEW_SHOT, optimiser="adam")}, "sgd"),
        ({"seeds": [1]}, "4 tasks but 1 seeds"),
        ({"target": torch.full((TASKS, 6), 3)}, "from 0 to 2"),
        ({"target": LABELS[:5].expand(TASKS, -1)}, "shapes"),
        ({"target": torch.zeros(TASKS, 0, dtype=torch.long), "rows": torch.zeros(TASKS, 0, POINTS)}, "no labelled"),
    ],
)
def test_bad_input(change, message):
    x, _, spread = _tasks()
    given = {
        "rows": spread[:, LABELLED],
        "target": LABELS[LABELLED].expand(TASKS, -1),
        "n_outputs": CLASSES,
        "seeds": [1, 2, 3, 4],
        "settings": FEW_SHOT,
    }
    with pytest.raises(InvalidInputError, match=message):
        fit_tasks(x, **(given | change))
