from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from condiff.errors import InvalidInputError
from condiff.reproduce.pretraining.augmentation import Augmentation

WHOLE = Augmentation(8, scale=(1.0, 1.0), ratio=(1.0, 1.0), flip=False, jitter=0.0)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise(count: int = 4, channels: int = 3, side: int = 8) -> torch.Tensor:
    return torch.rand(count, channels, side, side, generator=generator(9))


def test_the_whole_image_at_its_own_size_is_itself() -> None:
    torch.testing.assert_close(WHOLE(noise(), generator()), noise())


def test_half_of_the_images_are_mirrored() -> None:
    images = noise(400, 1)
    out = Augmentation(8, (1.0, 1.0), (1.0, 1.0), flip=True, jitter=0.0)(images, generator())
    same = (out - images).abs().amax(dim=(1, 2, 3)) < 1e-4
    mirrored = (out - images.flip(-1)).abs().amax(dim=(1, 2, 3)) < 1e-4
    assert bool((same ^ mirrored).all())
    assert 150 < int(mirrored.sum()) < 250


def test_crops_have_the_area_and_ratio_that_were_asked_for() -> None:
    # On a ramp, the range of what comes out tells the sides of the crop.
    side, count = 256, 300
    ramp = (torch.arange(side) + 0.5) / side
    across = ramp.expand(1, side, side)
    images = torch.stack([across, across.mT]).view(1, 2, side, side).expand(count, 2, side, side)
    size = 64
    out = Augmentation(size, (0.2, 0.5), (0.5, 2.0), flip=False, jitter=0.0)(images, generator())
    stretch = size / (size - 1)  # from the centres of the outer pixels to the crop's borders
    width = (out[:, 0].amax(dim=(1, 2)) - out[:, 0].amin(dim=(1, 2))) * stretch
    height = (out[:, 1].amax(dim=(1, 2)) - out[:, 1].amin(dim=(1, 2))) * stretch
    area, ratio = width * height, width / height
    # A crop that would stick out is cut, which makes it smaller than asked for.
    whole = (width < 0.99) & (height < 0.99)
    assert float(area[whole].min()) > 0.195
    assert float(area.max()) < 0.51
    assert float(ratio.min()) > 0.49
    assert float(ratio.max()) < 2.05
    assert abs(float(area[whole].mean()) - 0.35) < 0.02
    assert abs(float(ratio.log().mean())) < 0.06


def test_brightness_contrast_and_saturation_do_what_they_say() -> None:
    flat = torch.full((200, 3, 4, 4), 0.5)
    bright = Augmentation(4, (1.0, 1.0), (1.0, 1.0), flip=False, jitter=0.4)(flat, generator())
    assert float((bright - bright[:, :1, :1, :1]).abs().max()) < 1e-6  # a grey image stays flat and grey
    assert 0.29 < float(bright.min()) < 0.33
    assert 0.67 < float(bright.max()) < 0.71


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 1000), jitter=st.floats(0, 1), channels=st.sampled_from([1, 3]))
def test_pixels_stay_in_the_unit_range_and_depend_on_the_seed_alone(seed: int, jitter: float, channels: int) -> None:
    augmentation = Augmentation(6, jitter=jitter)
    images = noise(3, channels, 10)
    out = augmentation(images, generator(seed))
    assert out.shape == (3, channels, 6, 6)
    assert 0 <= float(out.min()) <= float(out.max()) <= 1
    assert torch.equal(out, augmentation(images, generator(seed)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": (0.0, 1.0)}, "scale"),
        ({"scale": (0.5, 1.1)}, "scale"),
        ({"ratio": (2.0, 1.0)}, "ratio"),
        ({"jitter": 1.5}, "jitter"),
        ({"jitter": math.nan}, "jitter"),
    ],
)
def test_ranges_that_make_no_sense_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Augmentation(84, **options)  # type: ignore[arg-type]
