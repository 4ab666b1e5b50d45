"""The multilayer perceptron above the gene-wise layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from condiff.reproduce.baselines.tabular.networks import HiddenLayerMethod


@dataclass(frozen=True)
class MLP(HiddenLayerMethod):
    r"""One number a gene, then a hidden layer: :math:`\sigma(W_2\,\mathrm{relu}(W_1 h + b_1) + b_2)`.

    The paper's settings; 64,610 parameters on the prostate data.
    """

    shortcut: ClassVar[bool] = False
