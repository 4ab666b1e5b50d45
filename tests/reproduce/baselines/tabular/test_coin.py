"""COIN against the paper's whole way, on dense tensors and with torch's own optimiser."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from condiff.bases.genewise import GeneWise
from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.tabular.coin import COIN, AveragedCOIN
from condiff.reproduce.baselines.tabular.problem import TabularProblem
from condiff.training import PROSTATE

SHORT = replace(PROSTATE, epochs=20)
SMALL = {"n_neighbors": 8, "bandwidth_rank": 4, "training": SHORT}


def plain(problem: TabularProblem, seed: int, layers: int, strength: float) -> torch.Tensor:
    """Pretrain from the seed 0, weigh, and train again with the diffusion; training patients first, then test ones."""
    order = torch.cat([problem.train, problem.test])
    x = torch.from_numpy(problem.features.toarray()).float()[order]
    truth, n_train = problem.labels[problem.train].float(), problem.train.numel()

    def trained(seed: int, laplacian: torch.Tensor | None) -> tuple[GeneWise, torch.Tensor]:
        torch.manual_seed(seed)
        base = GeneWise(problem.n_genes, problem.kinds)
        optimiser = torch.optim.SGD(base.parameters(), lr=1.0, weight_decay=5e-4)

        def output() -> torch.Tensor:
            u = torch.sigmoid(base(x))
            for _ in range(layers if laplacian is not None else 0):
                u = u - strength * laplacian @ u
            return u[:, 0]

        for _ in range(SHORT.epochs):
            optimiser.zero_grad()
            torch.nn.functional.binary_cross_entropy(output()[:n_train], truth).backward()
            optimiser.step()
        return base, output().detach()

    h = trained(0, None)[0].first_layer(x).detach()
    distance = torch.linalg.norm(h[:, None] - h[None], dim=-1).fill_diagonal_(0)
    ranked = distance.sort(dim=1).values
    weight = torch.exp(-((distance / ranked[:, 3:4]) ** 2)) * (distance < ranked[:, 7:8])
    scale = weight.sum(1) ** -0.5
    weight = scale[:, None] * weight * scale
    weight = (weight + weight.T) / 2
    scores = torch.zeros(problem.n_patients)
    scores[order] = trained(seed, torch.diag(weight.sum(1)) - weight)[1]
    return scores


def test_it_is_the_papers_way(tiny_problem: TabularProblem) -> None:
    outcome = COIN(layers=6, strength=0.15, **SMALL).solve(tiny_problem, seed=3)
    joined = torch.cat([tiny_problem.train, tiny_problem.test])
    expected = plain(tiny_problem, 3, 6, 0.15)
    torch.testing.assert_close(outcome.scores[joined], expected[joined], rtol=1e-3, atol=2e-4)
    assert outcome.epochs == 20


def test_validation_patients_keep_the_answer_of_the_base_network(tiny_problem: TabularProblem) -> None:
    method = COIN(layers=6, strength=0.15, **SMALL)
    fitted = method.fit(tiny_problem, 3)
    scores = method.solve(tiny_problem, 3).scores
    with torch.no_grad():
        base = fitted.network.base(tiny_problem.x_csr)[:, 0]
    torch.testing.assert_close(scores[tiny_problem.validation], base[tiny_problem.validation])
    assert not torch.allclose(scores[tiny_problem.test], base[tiny_problem.test], atol=1e-3)


def test_the_averaged_graph_is_a_setting_of_its_own(tiny_problem: TabularProblem) -> None:
    averaged = AveragedCOIN(pretrainings=3, **SMALL)
    assert averaged.settings() == COIN(graph="averaged", pretrainings=3, **SMALL).settings()
    assert torch.equal(
        averaged.solve(tiny_problem, 0).scores,
        COIN(graph="averaged", pretrainings=3, **SMALL).solve(tiny_problem, 0).scores,
    )
    one = COIN(**SMALL).solve(tiny_problem, 0).scores
    assert not torch.equal(averaged.solve(tiny_problem, 0).scores, one)
    # An average of one network is that network.
    torch.testing.assert_close(AveragedCOIN(pretrainings=1, **SMALL).solve(tiny_problem, 0).scores, one)


def test_the_seed_of_the_pretraining_decides_the_graph(tiny_problem: TabularProblem) -> None:
    zero, again, one = (COIN(pretraining_seed=seed, **SMALL).fit(tiny_problem, 0).graph for seed in (0, 0, 1))
    np.testing.assert_array_equal(zero.weights.toarray(), again.weights.toarray())
    assert not np.allclose(zero.weights.toarray(), one.weights.toarray())


def test_the_settings_of_the_paper() -> None:
    paper = COIN()
    assert (paper.layers, paper.strength) == (40, 0.2)
    assert (paper.n_neighbors, paper.bandwidth_rank, paper.graph, paper.pretraining_seed) == (40, 20, "pretrained", 0)
    assert (paper.hidden, paper.training) == (3, PROSTATE)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"graph": "euclid"}, "unknown graph 'euclid'"),
        ({"pretrainings": 0}, "pretrainings must be"),
        ({"hidden": 0}, "hidden must be"),
    ],
)
def test_bad_settings(bad: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        COIN(**bad)  # type: ignore[arg-type]
