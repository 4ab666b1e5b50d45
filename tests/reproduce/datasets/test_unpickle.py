from __future__ import annotations

import pickle
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from condiff.errors import InvalidFileError
from condiff.reproduce.datasets.unpickle import unpickle

# Written by hand in the opcodes of Python 2: the graph of one edge, and a list.
GRAPH = b"ccollections\ndefaultdict\n(c__builtin__\nlist\ntRI0\n(lI1\nasI1\n(lI0\nas."
LIST_OF_NODES = b"\x80\x02]q\x00(K\x00K\x01e."


def written(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "ind.test.graph"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"c__builtin__\neval\n(S'1'\ntR.",
        b"cnumpy\nload\n(S'x'\ntR.",
        b"cnumpy.core.multiarray\nscalar\n.",
        pickle.dumps(Path("x")),
        pickle.dumps(print),
    ],
)
def test_every_other_global_is_refused_by_name_and_never_called(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InvalidFileError, match=r"ind\.test\.graph: the pickle needs \w+(\.\w+)+, which is forbidden"):
        unpickle(written(tmp_path, content))


def test_dictionaries_of_lists_are_read(tmp_path: Path) -> None:
    assert unpickle(written(tmp_path, GRAPH)) == defaultdict(list, {0: [1], 1: [0]})
    assert unpickle(written(tmp_path, LIST_OF_NODES)) == [0, 1]


@pytest.mark.parametrize(
    "content", [b"", b"not a pickle", b"\x80\x02.", b"\x80\x63N.", LIST_OF_NODES[:-2], b"R.", b"(dg9\n."]
)
def test_damaged_pickles_are_named(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InvalidFileError, match=r"ind\.test\.graph is not a complete pickle"):
        unpickle(written(tmp_path, content))


@pytest.mark.parametrize(
    ("part", "kind"),
    [("x", sp.csr_matrix), ("ally", np.ndarray), ("graph", defaultdict)],
    ids=["csr", "array", "graph"],
)
def test_the_public_files_are_read_whole_and_refused_when_cut(
    data_root: Path, tmp_path: Path, part: str, kind: type
) -> None:
    content = (data_root / "planetoid" / f"ind.cora.{part}").read_bytes()
    assert isinstance(unpickle(written(tmp_path, content)), kind)
    for length in np.linspace(0, len(content) - 1, 20, dtype=int):
        with pytest.raises(InvalidFileError):
            unpickle(written(tmp_path, content[:length]))
