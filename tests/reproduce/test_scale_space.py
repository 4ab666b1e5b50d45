from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter

from condiff import Diffusion, Graph
from condiff.errors import InvalidInputError
from condiff.reproduce.scale_space import DeepMoons, heat_flow, photograph


@pytest.fixture(scope="module")
def deep() -> DeepMoons:
    return DeepMoons()


def grid(h: int, w: int) -> Graph:
    number = np.arange(h * w).reshape(h, w)
    pairs = [*zip(number[:, :-1].ravel(), number[:, 1:].ravel(), strict=True)]
    pairs += zip(number[:-1].ravel(), number[1:].ravel(), strict=True)
    edges = np.array(pairs + [(b, a) for a, b in pairs]).T
    return Graph.of(torch.as_tensor(edges))


def test_the_heat_flow_is_the_exact_diffusion_over_the_pixels() -> None:
    image = np.random.default_rng(0).random((5, 7, 3))
    found = heat_flow(image, [0.0, 0.3, 4.0])
    np.testing.assert_allclose(found[0], image, atol=1e-13)
    for time, picture in zip([0.3, 4.0], found[1:], strict=True):
        u = Diffusion(1, time, solver="exact")(torch.as_tensor(image.reshape(35, 3)), grid(5, 7))
        np.testing.assert_allclose(picture.reshape(35, 3), u.numpy(), atol=1e-10)


def test_it_is_a_gaussian_blur_far_from_the_border() -> None:
    image = np.zeros((61, 61))
    image[30, 30] = 1.0
    [found] = heat_flow(image, [8.0])
    np.testing.assert_allclose(found, gaussian_filter(image, 4.0, truncate=7), atol=2e-4)
    assert found.sum() == pytest.approx(1)


def test_flowing_on_is_flowing_longer_and_never_past_the_extremes() -> None:
    image = np.random.default_rng(1).random((9, 6))
    [once] = heat_flow(image, [1.5])
    [twice] = heat_flow(once, [2.0])
    np.testing.assert_allclose(twice, heat_flow(image, [3.5])[0], atol=1e-13)
    assert image.min() <= once.min() <= once.max() <= image.max()


def test_the_photograph_has_colours() -> None:
    image = photograph()
    assert image.shape == (213, 320, 3)
    assert 0 <= image.min() < 0.1 < 0.9 < image.max() <= 1


def test_all_blocks_are_the_network_and_none_the_base_classifier(deep: DeepMoons) -> None:
    x = np.random.default_rng(2).normal(size=(30, 2))
    with torch.no_grad():
        whole = torch.softmax(deep.network(torch.as_tensor(x)), dim=1)[:, 1].numpy()
    np.testing.assert_allclose(deep.at(x, len(deep.network.blocks)), whole, atol=1e-12)
    base = deep.at(x, 0)
    design = np.column_stack([x, np.ones(30)])
    logit = np.log(base / (1 - base))
    np.testing.assert_allclose(design @ np.linalg.lstsq(design, logit, rcond=None)[0], logit, atol=1e-9)


def test_the_network_tells_the_moons_apart(deep: DeepMoons) -> None:
    right = [((deep.at(deep.points, blocks) > 0.5) == deep.truth).mean() for blocks in (0, len(deep.network.blocks))]
    assert right[0] < 0.95
    assert right[1] > 0.98


def test_bad_input(deep: DeepMoons) -> None:
    with pytest.raises(InvalidInputError, match="from 0 to 12"):
        deep.at(deep.points, 13)
    with pytest.raises(InvalidInputError, match="an image has the shape"):
        heat_flow(np.zeros(4), [1.0])
    for time in (-1.0, float("nan")):
        with pytest.raises(InvalidInputError, match="times must be finite"):
            heat_flow(np.zeros((2, 2)), [time])
