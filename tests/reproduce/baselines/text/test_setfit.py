"""SetFit: which pairs are drawn, and that tuning puts texts of a class together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff.reproduce.baselines.text import setfit
from condiff.reproduce.baselines.text.setfit import SetFit
from condiff.reproduce.baselines.text.words import TextProblem


class Network(torch.nn.Module):
    """The mean of vectors of the words, of which there are two hundred."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.EmbeddingBag(200, 8)

    def tokenize(self, texts: list[str]) -> dict[str, torch.Tensor]:
        return {"words": torch.tensor([[int(word) for word in text.split()] for text in texts])}

    def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"sentence_embedding": self.words(features["words"])}


@pytest.fixture
def problem(monkeypatch: pytest.MonkeyPatch) -> tuple[TextProblem, Any]:
    """Texts of two classes with words of their own, ten of a hundred labelled."""
    generator = np.random.default_rng(0)
    truth = np.arange(100) % 2
    texts = [" ".join(map(str, generator.integers(0, 20, 6) + 20 * code)) for code in truth]
    torch.manual_seed(0)
    network = Network()
    weights = {name: value.clone() for name, value in network.state_dict().items()}
    monkeypatch.setattr(setfit, "_read", lambda: (network, weights))
    monkeypatch.setattr(setfit, "_encoded", lambda tuned, texts: setfit._pooled(tuned, list(texts)).detach().numpy())
    given = np.where(np.arange(100) < 10, truth, -1)
    return TextProblem(np.zeros((100, 1)), given, 2, sp.csr_array((100, 1)), tuple(texts)), truth


def test_every_text_has_as_many_pairs_of_its_class_as_of_others() -> None:
    labels = np.array([0, 0, 0, 1, 1, 2])
    first, second, alike = SetFit(pairs=4)._drawn(labels, np.random.default_rng(0))
    assert np.bincount(first).tolist() == [8] * 6
    np.testing.assert_array_equal(labels[first] == labels[second], alike == 1)
    assert alike.mean() == 0.5
    # Only a text without another of its class is paired with itself.
    assert set(first[first == second].tolist()) == {5}


def test_tuning_helps_and_begins_anew_each_time(problem: tuple[TextProblem, Any]) -> None:
    data, truth = problem

    def right(method: SetFit) -> float:
        return float((method.solve(data, 0).answers.argmax(axis=1) == truth)[10:].mean())

    untuned = right(SetFit(rate=0.0))
    tuned = right(SetFit(rate=0.02))
    assert tuned > max(0.8, untuned)
    np.testing.assert_array_equal(SetFit(rate=0.02).solve(data, 0).answers, SetFit(rate=0.02).solve(data, 0).answers)
