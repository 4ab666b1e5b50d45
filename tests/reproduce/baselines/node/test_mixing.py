"""How much validation nodes count where answers are mixed."""

import torch

from condiff.reproduce.baselines.node.mixing import mixed


def test_the_less_validation_nodes_are_trusted_the_more_even_the_mixture(tiny_problem):
    n_nodes, classes = tiny_problem.n_nodes, tiny_problem.n_classes
    truth = torch.zeros(n_nodes, dtype=torch.int64)
    truth[tiny_problem.validation] = tiny_problem.labels[tiny_problem.validation]
    right = torch.full((n_nodes, classes), 0.3 / (classes - 1)).scatter(1, truth[:, None], 0.7)
    even = torch.full((n_nodes, classes), 1 / classes)
    alone, flat = (mixed([each.log()], tiny_problem).exp() for each in (right, even))
    halved = mixed([right.log(), even.log()], tiny_problem, trust=0.0).exp()
    torch.testing.assert_close(halved, (alone + flat) / 2)
    sure = [mixed([right.log(), even.log()], tiny_problem, trust=trust).exp().max() for trust in (0.0, 0.01, 0.1, 1.0)]
    assert sure == sorted(sure) and sure[0] < sure[1] < sure[2]
