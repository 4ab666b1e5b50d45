from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from condiff.training.stopping import EarlyStopping, Snapshot


class Marked(nn.Module):
    """A network whose weight and buffer say which epoch they are of."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(-1.0))
        self.register_buffer("count", torch.tensor(-1))

    def mark(self, epoch: int) -> None:
        with torch.no_grad():
            self.weight.fill_(epoch)
            self.count.fill_(epoch)

    @property
    def epoch(self) -> float:
        assert float(self.weight.detach()) == int(self.count)
        return float(self.weight.detach())


def run(
    patience: int, figures: list[tuple[float, float]]
) -> tuple[EarlyStopping, Snapshot, Marked, list[bool], list[int]]:
    """Feed epochs until told to stop: what there is then, what each epoch answered, and the best epoch after each."""
    model, answers, best = Marked(), [], []
    snapshot = Snapshot(model)
    stopping = EarlyStopping(patience, snapshot.take)
    for epoch, (loss, score) in enumerate(figures):
        model.mark(epoch)
        answers.append(stopping.should_stop(epoch, loss, score))
        best.append(stopping.best_epoch)
        if answers[-1]:
            break
    return stopping, snapshot, model, answers, best


def test_scripted_sequence_epoch_by_epoch() -> None:
    # (loss, accuracy), then whether it is progress; patience 3.
    script = [
        ((1.0, 0.50), True),  # the first epoch always is
        ((0.9, 0.40), True),  # a lower loss alone
        ((1.5, 0.60), True),  # a higher accuracy alone, though the loss rose
        ((0.9, 0.60), False),  # both only equal the best: the loss of epoch 1, the accuracy of epoch 2
        ((1.0, 0.55), False),  # the loss fell against no best
        ((0.8, 0.10), True),  # on the last chance, a lower loss
        ((0.9, 0.60), False),
        ((0.9, 0.60), False),
        ((0.8, 0.60), False),  # third epoch without progress: stop
        ((0.1, 1.00), True),  # never reached
    ]
    stopping, snapshot, model, answers, best = run(3, [figures for figures, _ in script])
    assert answers == [False] * 8 + [True]
    expected, latest = [], -1
    for epoch, (_, progress) in enumerate(script[:9]):
        latest = epoch if progress else latest
        expected.append(latest)
    assert best == expected
    assert (stopping.best_loss, stopping.best_score, stopping.best_epoch) == (0.8, 0.60, 5)
    assert model.epoch == 8
    snapshot.restore()
    assert model.epoch == 5
    assert model.weight.requires_grad


@pytest.mark.parametrize("patience", [1, 2, 50])
@pytest.mark.parametrize("progress", [0, 7])
def test_patience_is_counted_exactly(patience: int, progress: int) -> None:
    figures = [(10.0 - epoch, 0.0) for epoch in range(progress + 1)] + [(100.0, 0.0)] * 200
    _, _, model, answers, _ = run(patience, figures)
    assert len(answers) == progress + 1 + patience
    assert answers[-1] and not any(answers[:-1])
    assert model.epoch == progress + patience


def test_stored_weights_are_a_copy() -> None:
    model = Marked()
    snapshot = Snapshot(model)
    model.mark(3)
    snapshot.take()
    model.mark(4)
    snapshot.restore()
    model.mark(9)
    snapshot.restore()
    assert model.epoch == 3


def test_figures_that_are_no_numbers_are_no_progress() -> None:
    _, snapshot, model, answers, best = run(2, [(1.0, 0.5), (math.nan, math.nan), (math.nan, 0.5), (0.1, 1.0)])
    assert answers == [False, False, True] and best == [0, 0, 0]
    snapshot.restore()
    assert model.epoch == 0


def test_nothing_stored_restores_nothing() -> None:
    stopping, snapshot, model, answers, _ = run(1, [(math.nan, math.nan)])
    snapshot.restore()
    assert answers == [True] and model.epoch == 0 and stopping.best_epoch == -1


figures = st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.3, 0.4]), st.sampled_from([0.5, 0.6, 0.7])), min_size=1)


@given(figures, st.integers(1, 4))
def test_agrees_with_the_words(figures: list[tuple[float, float]], patience: int) -> None:
    """An epoch is progress if its loss is below, or its accuracy above, that of every epoch before it."""
    progress = [
        all(loss < before for before, _ in figures[:epoch]) or all(score > before for _, before in figures[:epoch])
        for epoch, (loss, score) in enumerate(figures)
    ]
    stops = [e for e in range(patience, len(figures)) if not any(progress[e - patience + 1 : e + 1])]
    end = stops[0] if stops else len(figures) - 1
    _, snapshot, model, answers, _ = run(patience, figures)
    assert len(answers) == end + 1 and answers[-1] == bool(stops)
    snapshot.restore()
    assert model.epoch == max(e for e in range(end + 1) if progress[e])
