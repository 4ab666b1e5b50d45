"""Which entries the diffusion layers drop."""

import pytest
import torch

from condiff.training.dropout import DropoutMasks

SHAPE, LIKE = (8, 40, 2), torch.empty(0, dtype=torch.float64)


@pytest.mark.parametrize("probability", [0.25, 0.5, 0.9])
def test_entries_are_dropped_as_often_as_asked_for(probability: float) -> None:
    masks = DropoutMasks(probability, 5, SHAPE, [0, 1, 2], LIKE)
    kept = torch.stack([masks.draw().clone() for _ in range(20)])
    assert set(kept.unique().tolist()) == {0.0, 1.0}
    error = (probability * (1 - probability) / kept.numel()) ** 0.5
    assert float(kept.mean()) == pytest.approx(1 - probability, abs=5 * error + 2**-16)
    assert masks.scale == pytest.approx(1 / (1 - probability), rel=1e-3)


def test_epochs_layers_graphs_networks_outputs_and_nodes_are_independent() -> None:
    masks = DropoutMasks(0.5, 5, SHAPE, [0, 1, 2], LIKE)
    kept = torch.stack([masks.draw().clone() for _ in range(6)])
    assert kept.shape == (6, 5, 8, 3, 2, 40)
    for axis in range(kept.ndim):
        first, second = kept.select(axis, 0), kept.select(axis, 1)
        correlation = float(torch.corrcoef(torch.stack([first.flatten(), second.flatten()]))[0, 1])
        assert abs(correlation) < 5 / first.numel() ** 0.5


def test_a_networks_masks_depend_on_its_seed_alone() -> None:
    alone, together = DropoutMasks(0.3, 5, SHAPE, [7], LIKE), DropoutMasks(0.3, 5, SHAPE, [1, 7, 2], LIKE)
    for _ in range(3):
        assert torch.equal(alone.draw()[:, :, 0], together.draw()[:, :, 1])


def test_a_number_of_entries_that_is_no_multiple_of_four_will_do() -> None:
    assert DropoutMasks(0.5, 1, (1, 3, 1), [0], LIKE).draw().shape == (1, 1, 1, 1, 3)
