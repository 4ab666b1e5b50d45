"""SetFit (Tunstall and others 2022): a sentence model tuned on pairs of the labelled texts, then logistic regression.

Written from the paper and its library's documented defaults: batches of 16 pairs, one epoch, a rate of 2e-5 with a
tenth of the steps to warm up, cosines by least squares, a logistic regression on vectors of length one. The number of
pairs is the paper's, twenty of each kind for every labelled text; the library has since taken every pair once, of which
there are twelve at one label of each of four classes, too few to tune anything. The cosine between the two vectors of a
pair is to be one or zero. One pass over the pairs tunes all weights of the encoder. With a single label per class, a
pair of one class is the text with itself, which two draws of the dropout tell apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from condiff.encoders.embedding import on_sphere
from condiff.reproduce.baselines.tables.method import Array, TableMethod, TableProblem, spread_classes
from condiff.reproduce.baselines.text.words import TextProblem
from condiff.reproduce.datasets.ordinary_tables import Task

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor


@dataclass(frozen=True)
class SetFit(TableMethod):
    """Logistic regression on embeddings that were tuned on pairs of the labelled texts.

    Parameters
    ----------
    pairs
        Pairs of each kind for every labelled text.
    rate, batch
        The optimiser's rate, after a warm-up over a tenth of the steps and falling to zero; pairs of one step.
    """

    tasks: ClassVar[tuple[Task, ...]] = ("classes",)

    pairs: int = 20
    rate: float = 2e-5
    batch: int = 16

    def answers(self, problem: TableProblem, seed: int) -> Array:
        import torch
        from sklearn.linear_model import LogisticRegression

        assert isinstance(problem, TextProblem)
        texts = [problem.texts[row] for row in problem.known]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = _fresh()
            self._tune(network, texts, *self._drawn(problem.labels, np.random.default_rng(seed)))
        rows = on_sphere(_encoded(network, problem.texts))
        head = LogisticRegression(max_iter=500).fit(rows[problem.known], problem.labels)
        return spread_classes(head.predict_proba(rows), head.classes_, problem.n_classes)

    def _drawn(
        self, labels: NDArray[Any], generator: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """The first and the second text of every pair in random order, and whether they are of one class."""
        first = np.tile(np.repeat(np.arange(len(labels)), self.pairs), 2)
        alike = np.arange(len(first)) < len(first) // 2
        second = np.empty_like(first)
        for place, (text, same) in enumerate(zip(first, alike, strict=True)):
            others = np.flatnonzero((labels == labels[text]) == same)
            fitting = others[others != text]
            second[place] = generator.choice(fitting if len(fitting) else others)
        order = generator.permutation(len(first))
        return first[order], second[order], alike[order].astype(np.float32)

    def _tune(
        self,
        network: Any,
        texts: list[str],
        first: NDArray[np.int64],
        second: NDArray[np.int64],
        alike: NDArray[np.float32],
    ) -> None:
        """One pass of AdamW over the pairs."""
        import torch

        steps = -(-len(first) // self.batch)
        warm = max(1, steps // 10)
        optimiser = torch.optim.AdamW(network.parameters(), lr=self.rate, weight_decay=0.01)
        network.train()
        for step in range(steps):
            here = slice(step * self.batch, (step + 1) * self.batch)
            for group in optimiser.param_groups:
                group["lr"] = self.rate * min((step + 1) / warm, (steps - step) / max(1, steps - warm))
            one = _pooled(network, [texts[place] for place in first[here]])
            two = _pooled(network, [texts[place] for place in second[here]])
            cosines = torch.nn.functional.cosine_similarity(one, two)
            loss = ((cosines - torch.as_tensor(alike[here])) ** 2).mean()
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
        network.eval()


@lru_cache(maxsize=1)
def _read() -> tuple[Any, dict[str, Tensor]]:
    """The default sentence model as its library runs it, and its weights before any tuning."""
    from condiff.encoders.sentences import DEFAULT, Library, locate

    network = Library(str(locate(DEFAULT))).network
    return network, {name: value.clone() for name, value in network.state_dict().items()}


def _fresh() -> Any:
    network, weights = _read()
    network.load_state_dict(weights)
    return network


def _pooled(network: Any, texts: list[str]) -> Tensor:
    """The vectors of some texts; products are of sixteen-bit numbers where the processor has them."""
    import torch

    from condiff.encoders.bert import multiplies_bfloat16

    with torch.autocast("cpu", torch.bfloat16, enabled=multiplies_bfloat16()):
        found: Tensor = network(network.tokenize(texts))["sentence_embedding"]
    return found.float()


def _encoded(network: Any, texts: tuple[str, ...]) -> Array:
    """The vectors of all texts by the tuned weights, as condiff computes those of the default model."""
    from condiff.encoders.bert import Bert
    from condiff.encoders.sentences import DEFAULT, embedded, locate

    reader = Bert(locate(DEFAULT), network[0].auto_model.state_dict())
    return embedded(reader, texts)
