import numpy as np

from condiff.reproduce.baselines.tabular.problem import TabularProblem


def test_sizes(tiny_problem: TabularProblem) -> None:
    assert (tiny_problem.n_patients, tiny_problem.n_genes) == (60, 12)


def test_seen_leaves_out_what_no_training_patient_has(tiny_problem: TabularProblem) -> None:
    dense = tiny_problem.features.toarray()
    kept = dense[:10].any(axis=0)
    assert 0 < kept.sum() < kept.size
    np.testing.assert_array_equal(tiny_problem.seen.toarray(), dense[:, kept])


def test_the_sparse_tensor_has_the_same_entries(tiny_problem: TabularProblem) -> None:
    np.testing.assert_array_equal(tiny_problem.x_csr.to_dense().numpy(), tiny_problem.features.toarray())
