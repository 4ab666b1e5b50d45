from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from condiff.errors import InvalidFileError, InvalidInputError
from condiff.reproduce.splits import Split, random_split, random_splits, read_splits, write_splits

LABELS = np.tile([0, 1, 2, -1, 1], 12)  # 12, 24 and 12 nodes of three classes, 12 without


def drawn(seed: int = 0, labels: np.ndarray = LABELS) -> Split:
    return random_split(labels, seed, train_per_class=2, validation_per_class=3)


@st.composite
def labellings(draw: st.DrawFn) -> tuple[np.ndarray, int, int]:
    """Labels in any order, some missing, with enough of every class for the two numbers beside them."""
    train, validation = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    sizes = draw(st.lists(st.integers(train + validation + 1, 15), min_size=1, max_size=5))
    labels = np.concatenate([np.full(draw(st.integers(0, 10)), -1), np.repeat(np.arange(len(sizes)), sizes)])
    order = np.random.default_rng(draw(st.integers(0, 1000))).permutation(labels.size)
    return labels[order], train, validation


@settings(deadline=None)
@given(labellings(), st.integers(0, 2**64 - 1))
def test_parts_are_disjoint_stratified_and_use_all_labelled_nodes(case: tuple[np.ndarray, int, int], seed: int) -> None:
    labels, train, validation = case
    split = random_split(labels, seed, train_per_class=train, validation_per_class=validation)
    everything = np.concatenate([split.train, split.validation, split.test])
    np.testing.assert_array_equal(np.sort(everything), np.flatnonzero(labels >= 0))  # each once: disjoint as well
    classes = labels.max() + 1
    np.testing.assert_array_equal(np.bincount(labels[split.train], minlength=classes), train)
    np.testing.assert_array_equal(np.bincount(labels[split.validation], minlength=classes), validation)
    assert (np.bincount(labels[split.test], minlength=classes) >= 1).all()
    for part in (split.train, split.validation, split.test):
        assert part.dtype == np.int64
        assert (np.diff(part) > 0).all()


def test_splits_are_the_same_on_every_machine_and_for_ever() -> None:
    """Stored runs are known by these: a change here means that no old result can be reproduced."""
    assert [drawn(seed).hash for seed in (0, 1, 2**40)] == ["fe0e9a87f0ee6e2a", "040074ee50a2a294", "3569ea6c530be5b3"]
    assert drawn(0).train.tolist() == [4, 5, 15, 17, 21, 42]
    assert drawn(0).validation.tolist() == [0, 11, 22, 27, 30, 35, 37, 39, 49]


def test_a_split_depends_on_its_seed_and_labels_alone() -> None:
    forwards = [drawn(seed).hash for seed in range(20)]
    np.random.default_rng().permutation(100)
    backwards = [drawn(seed).hash for seed in reversed(range(20))]
    assert forwards == backwards[::-1]
    assert len(set(forwards)) == 20
    assert drawn(0, LABELS.astype(np.int32)).hash == forwards[0]
    changed = LABELS.copy()
    changed[3] = 0
    assert drawn(0, changed).hash != forwards[0]
    several = random_splits(LABELS, 20, train_per_class=2, validation_per_class=3)
    assert [split.hash for split in several.values()] == forwards
    assert list(several) == list(range(20))


def test_every_node_is_drawn_about_as_often() -> None:
    times = np.zeros(LABELS.size)
    for seed in range(600):
        times[drawn(seed).train] += 1
    for label, size in ((0, 12), (1, 24), (2, 12)):
        share = times[label == LABELS] / 600
        assert np.abs(share - 2 / size).max() < 0.08
    assert times[LABELS < 0].sum() == 0


def test_the_hash_tells_the_parts_apart() -> None:
    one, two, three = np.array([1]), np.array([2]), np.array([1, 2])
    none = np.array([], dtype=np.int64)
    hashes = {Split(one, two, none).hash, Split(two, one, none).hash, Split(three, none, none).hash}
    assert len(hashes) == 3
    assert Split(one, two, none).hash == Split(one.astype(np.int32), two, none).hash


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.repeat([0, 1], [50, 51]), "class 0 has 50 nodes, too few for 20 to train and 30 to validate"),
        (np.repeat([0, 2], 60), "class 1 has 0 nodes, too few"),
        (np.full(9, -1), "no node has a label, so there is nothing to split"),
        (np.array([], dtype=np.int64), "no node has a label"),
    ],
)
def test_too_few_nodes_are_named(labels: np.ndarray, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        random_split(labels, 0)


@settings(deadline=None, max_examples=25)
@given(labellings(), st.sets(st.integers(0, 2**64), min_size=1, max_size=3))
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[np.ndarray, int, int], seeds: set[int]
) -> None:
    labels, train, validation = case
    splits = {
        seed: random_split(labels, seed, train_per_class=train, validation_per_class=validation) for seed in seeds
    }
    path = tmp_path_factory.mktemp("splits") / "splits.json"
    write_splits(path, splits, 'a "graph"', labels)
    read = read_splits(path, labels)
    assert {seed: split.hash for seed, split in read.items()} == {seed: split.hash for seed, split in splits.items()}
    assert json.loads(path.read_text())["dataset"] == 'a "graph"'
    for split in read.values():
        assert split.train.dtype == np.int64


def written(folder: Path) -> Path:
    path = folder / "splits.json"
    write_splits(path, {0: drawn(0), 7: drawn(7)}, "toy", LABELS)
    return path


def edited(path: Path, change: Callable[[Any], Any]) -> Path:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    return path


def seven(change: Callable[[dict[str, Any]], Any]) -> Callable[[Any], Any]:
    return lambda content: change(content["splits"]["7"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(format="other"), "is not a file of splits: write one with --export-splits"),
        (lambda c: c.update(nodes=61), "is for 'toy' with 61 nodes and other labels than the 60 nodes at hand"),
        (lambda c: c.update(labels="0" * 16), "is for 'toy' with 60 nodes and other labels than the 60 nodes"),
        (lambda c: c.pop("splits"), "holds no splits: write them again"),
        (lambda c: c.update(splits={}), "holds no splits"),
        (lambda c: c["splits"].update(first=1), "a split is called 'first', but its name must be its seed"),
        (lambda c: c["splits"].update({"3": []}), "split 3 needs a hash and the parts train, validation, test"),
        (seven(lambda s: s.pop("hash")), "split 7 needs a hash and the parts"),
        (seven(lambda s: s.pop("test")), "split 7 needs a hash and the parts"),
        (seven(lambda s: s["test"].append(60)), r"split 7: test must list nodes by their numbers in 0 \.\. 59"),
        (seven(lambda s: s["train"].insert(0, -1)), "split 7: train must list nodes by their numbers"),
        (seven(lambda s: s.update(train=[1.0])), "split 7: train must list nodes"),
        (seven(lambda s: s.update(train=[True])), "split 7: train must list nodes"),
        (seven(lambda s: s.update(train=[[1]])), "split 7: train must list nodes"),
        (seven(lambda s: s.update(validation=[])), "split 7: validation must list nodes"),
        (seven(lambda s: s["train"].reverse()), "split 7: train must list every node once, in ascending order"),
        (seven(lambda s: s["train"].append(s["train"][-1])), "split 7: train must list every node once"),
        (seven(lambda s: s.update(train=[3])), "split 7: node 3 of train has no label: leave it out"),
        (seven(lambda s: s.update(train=s["test"][:2])), "split 7: node .* is in two parts: keep it in one"),
        (seven(lambda s: s["test"].pop()), "split 7 was changed: its hash is .*, not .*; write it again"),
        (seven(lambda s: s.update(hash="0" * 16)), "split 7 was changed: its hash is .*, not 0000"),
    ],
)
def test_a_changed_file_is_refused(tmp_path: Path, change: Callable[[Any], Any], message: str) -> None:
    path = edited(written(tmp_path), change)
    with pytest.raises(InvalidFileError, match=message) as caught:
        read_splits(path, LABELS)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_are_not_there_or_no_json(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match=r"splits.json cannot be read \(No such file or directory\)"):
        read_splits(tmp_path / "splits.json", LABELS)
    path = written(tmp_path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InvalidFileError, match=r"splits.json is damaged or not JSON \(.*\); write the splits again"):
        read_splits(path, LABELS)
    path.write_text("[1, 2]")
    with pytest.raises(InvalidFileError, match=r"is not a file of splits"):
        read_splits(path, LABELS)


def test_other_labels_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    others = LABELS.copy()
    others[0] = 1
    with pytest.raises(InvalidFileError, match="other labels than the 60 nodes at hand: give the data set"):
        read_splits(path, others)
