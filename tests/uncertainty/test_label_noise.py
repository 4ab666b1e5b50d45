from __future__ import annotations

import numpy as np

from condiff.uncertainty.label_noise import doubted


def test_a_label_is_doubted_where_another_class_is_as_sure_as_usual() -> None:
    chances = np.array([[0.9, 0.1], [0.8, 0.2], [0.95, 0.05], [0.1, 0.9], [0.2, 0.8]])
    codes = np.array([0, 0, 1, 1, 1])
    assert doubted(chances, codes).tolist() == [False, False, True, False, False]
    # Unless it is left with some chance.
    assert not doubted(np.array([[0.8, 0.2], [0.8, 0.2], [0.2, 0.8]]), np.array([0, 1, 1])).any()
