"""The residual network above the gene-wise layer: COIN without its diffusion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from condiff.reproduce.baselines.tabular.networks import HiddenLayerMethod


@dataclass(frozen=True)
class ResNet(HiddenLayerMethod):
    r"""One number a gene, then a residual block: :math:`\sigma(S h + s + W_2\,\mathrm{relu}(W_1 h + b_1) + b_2)`.

    The paper's settings; 73,840 parameters on the prostate data.
    """

    shortcut: ClassVar[bool] = True
