from __future__ import annotations

import pytest
import torch

from condiff.bases.backbones import BACKBONES, backbone, unit_range
from condiff.errors import InvalidInputError

TRAINED_HERE = ["conv4", "resnet18", "wrn28_10"]
# Convolutions and batch normalisations counted by hand.
RESNET18 = (
    3 * 64 * 9 + 2 * 64
    + 4 * 64 * 64 * 9 + 4 * 2 * 64
    + sum(w // 2 * w * 9 + 3 * w * w * 9 + w // 2 * w + 5 * 2 * w for w in (128, 256, 512))
)  # fmt: skip
WRN28_10 = (
    3 * 16 * 9 + 16 + 2 * 640
    + sum(
        2 * before + before * w * 9 + w + 2 * w + w * w * 9 + w + before * w + w  # the first block, with its shortcut
        + 3 * 2 * (2 * w + w * w * 9 + w)
        for before, w in ((16, 160), (160, 320), (320, 640))
    )
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "in_channels", "size", "features", "parameters"),
    [
        ("conv4", 1, 28, 64, 1 * 64 * 9 + 3 * 64 * 64 * 9 + 4 * 3 * 64),
        ("conv4", 3, 84, 1600, 3 * 64 * 9 + 3 * 64 * 64 * 9 + 4 * 3 * 64),
        ("resnet18", 3, 84, 512, RESNET18),
        ("wrn28_10", 3, 84, 640, WRN28_10),
    ],
)
def test_features_and_parameters_are_as_published(
    name: str, in_channels: int, size: int, features: int, parameters: int
) -> None:
    network = backbone(name, in_channels=in_channels, size=size)
    assert network.out_features == features
    assert sum(parameter.numel() for parameter in network.parameters()) == parameters
    # The residual networks average over their maps, so that small images show the shape as well.
    side = size if name == "conv4" else 16
    with torch.no_grad():
        assert network.eval()(torch.rand(2, in_channels, side, side)).shape == (2, features)


def test_counts_agree_with_those_known_from_elsewhere() -> None:
    # The ImageNet network of 11,689,512, without its 7 x 7 stem and its head of 1,000 classes.
    assert RESNET18 == 11_689_512 - (7 * 7 - 3 * 3) * 3 * 64 - 513_000
    assert WRN28_10 == 36_482_880


@pytest.mark.parametrize("name", TRAINED_HERE)
def test_every_parameter_gets_a_gradient(name: str) -> None:
    torch.manual_seed(0)
    network = backbone(name, in_channels=1, size=16)
    network(torch.rand(2, 1, 16, 16)).square().sum().backward()
    still = [key for key, value in network.named_parameters() if value.grad is None]
    assert still == []


@pytest.mark.parametrize("name", ["resnet18", "wrn28_10"])
def test_maps_are_as_fine_as_the_paper_has_them(name: str) -> None:
    network = backbone(name).eval()
    seen: list[tuple[int, ...]] = []
    network.blocks.register_forward_hook(lambda _, __, maps: seen.append(tuple(maps.shape)))  # type: ignore[union-attr]
    with torch.no_grad():
        network(torch.rand(1, 3, 32, 32))
    # No stride or pooling in the stem: three halvings, and two in the wide network.
    assert seen == [{"resnet18": (1, 512, 4, 4), "wrn28_10": (1, 640, 8, 8)}[name]]


def test_pixels_are_prepared_for_the_network() -> None:
    images = torch.zeros(1, 2, 2, 3, dtype=torch.uint8)
    images[..., 1] = 255
    torch.testing.assert_close(unit_range(images)[0, :, 0, 0], torch.tensor([0.0, 1.0, 0.0]))
    network = backbone("conv4")
    expected = torch.tensor([(0 - 0.485) / 0.229, (1 - 0.456) / 0.224, (0 - 0.406) / 0.225])
    torch.testing.assert_close(network.prepare(images)[0, :, 1, 1], expected)
    grey = backbone("conv4", in_channels=1, size=28).prepare(torch.full((1, 2, 2, 1), 51, dtype=torch.uint8))
    torch.testing.assert_close(grey, torch.full((1, 1, 2, 2), 0.2))


def test_unknown_names_and_sizes_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"unknown backbone 'resnet-18' \(did you mean 'resnet18'\?\)"):
        backbone("resnet-18")
    with pytest.raises(InvalidInputError, match="at least 16 pixels"):
        backbone("conv4", size=15)
    assert {*TRAINED_HERE, "efficientnet_lite0"} == set(BACKBONES)
