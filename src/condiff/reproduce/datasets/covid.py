"""Daily COVID-19 cases in 129 regions of England in spring 2020, with a graph of mobility for every day."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from condiff.files import read_json, refusing
from condiff.reproduce.datasets.panel import Panel
from condiff.reproduce.datasets.sources import fetch

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Days that a snapshot looks back on, in the paper.
LAGS = 8


def load() -> Panel:
    """Load the panel: 61 days of 129 regions (NUTS 3), without holes.

    Values are the numbers of new cases as reported, 0 to 182, not yet standardised. The weight in row i and column j is
    how many people moved from region i to region j that day; those who stayed are on the diagonal. The file names
    neither regions nor dates. Its first publication (Panagopoulos et al. 2021) has graphs of 13 March to 12 May 2020,
    which are 61 days; the paper writes 3 March.
    """
    (path,) = fetch("covid")
    return read_covid(path)


def read_covid(path: Path) -> Panel:
    """Read the published JSON file: ``y``, days x regions, and under ``edge_mapping`` lists of edges and weights."""
    with refusing(path, "the England COVID-19 file", "fetch it again"):
        content = read_json(path, "fetch it again")
        values = np.array(content["y"], dtype=np.float64)
        edges, weights = (content["edge_mapping"][key] for key in ("edge_index", "edge_weight"))
        shape = (values.shape[1], values.shape[1])
        graphs = [
            sp.csr_array((np.array(weights[str(day)], dtype=np.float64), _ends(edges[str(day)])), shape=shape)
            for day in range(content["time_periods"])
        ]
        return Panel(values, tuple(graphs))


def _ends(pairs: list[list[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return ends[:, 0], ends[:, 1]
