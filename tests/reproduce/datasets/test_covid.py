from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from condiff.errors import InvalidFileError
from condiff.reproduce.datasets import covid
from condiff.reproduce.datasets.panel import split_in_time


def test_the_panel_is_the_published_one(data_root: Path) -> None:
    panel = covid.load()
    assert panel.values.shape == (61, 129)
    assert len(panel.weights) == 61
    # Raw counts: whole numbers, none missing, every region with some variation.
    np.testing.assert_array_equal(panel.values, np.round(panel.values))
    assert (panel.values.min(), panel.values.max()) == (0, 182)
    assert (panel.values.std(axis=0) > 0).all()
    assert [panel.weights[day].nnz for day in (0, 30, 60)] == [2158, 836, 1511]
    assert all((weights.diagonal() > 0).all() for weights in panel.weights)
    assert abs(panel.weights[0] - panel.weights[0].T).max() > 0  # directed


def test_zeros_have_the_published_error(data_root: Path) -> None:
    windows = covid.load().standardised().windows(covid.LAGS)
    assert windows.inputs.shape == (53, 129, 8)
    train, validation, test = split_in_time(len(windows.inputs))
    assert [len(windows.targets[part]) for part in (train, validation, test)] == [10, 10, 33]
    assert round(float((windows.targets[test] ** 2).mean()), 4) == 0.8197


@pytest.mark.parametrize("seed", [0, 121958])
def test_masks_are_drawn_as_the_paper_describes(data_root: Path, seed: int) -> None:
    panel = covid.load().standardised()
    random = np.random.RandomState(seed)
    while True:
        expected = panel.values.copy().ravel()
        expected[random.choice(expected.size, 7082, replace=False)] = np.nan
        expected = expected.reshape(panel.values.shape)
        if all(len(np.unique(column[~np.isnan(column)])) >= 2 for column in expected.T):
            break
    np.testing.assert_array_equal(panel.hidden(0.9, seed).values, expected)


def small(**changes: Any) -> dict[str, Any]:
    content = {
        "y": [[1, 2], [3, 4], [5, 6]],
        "edge_mapping": {
            "edge_index": {"2": [], "0": [[0, 0], [0, 1]], "1": [[1, 0]]},
            "edge_weight": {"0": [7.0, 8.0], "1": [9.0], "2": []},
        },
        "time_periods": 3,
    }
    return content | changes


def write(folder: Path, content: Any) -> Path:
    path = folder / "england_covid.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_an_edge_goes_from_its_row_to_its_column_on_its_day(tmp_path: Path) -> None:
    panel = covid.read_covid(write(tmp_path, small()))
    np.testing.assert_array_equal(panel.values, [[1, 2], [3, 4], [5, 6]])
    dense = [weights.toarray().tolist() for weights in panel.weights]
    assert dense == [[[7, 8], [0, 0]], [[0, 0], [9, 0]], [[0, 0], [0, 0]]]
    assert panel.names is None


@pytest.mark.parametrize(
    "content",
    [
        "not JSON",
        [1, 2],
        {},
        small(y=[1, 2, 3]),
        small(y=[["a", "b"]] * 3),
        small(time_periods=2),
        small(time_periods=4),
        small(time_periods=None),
        small(edge_mapping={"edge_index": {}}),
        small(edge_mapping={"edge_index": {"0": [[0, 5]]}, "edge_weight": {"0": [1.0]}}, time_periods=1),
        small(edge_mapping={"edge_index": {"0": [[0, 1]]}, "edge_weight": {"0": [1.0, 2.0]}}, time_periods=1),
    ],
)
def test_another_file_is_refused_in_one_line(tmp_path: Path, content: Any) -> None:
    with pytest.raises(InvalidFileError, match=r"is not the England COVID-19 file|damaged or not JSON") as error:
        covid.read_covid(write(tmp_path, content))
    assert "\n" not in str(error.value)
