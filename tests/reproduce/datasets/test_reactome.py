"""The layers of pathways, by hand on a made-up hierarchy and by networkx on Reactome's own."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from condiff.errors import InvalidFileError, InvalidInputError
from condiff.reproduce.datasets import prostate, reactome
from condiff.reproduce.datasets.reactome import MEMBERS, RELATIONS, Pathways, read_pathways

# Two tops: A with the parts B and C, and Z alone with the part C. B has D, D has E, E has F; C has no parts.
# G, part of D, is also part of A, and so as near to the top as B.
FILES = {
    RELATIONS: "R-BTA-1\tR-BTA-2\nHSA-A\tHSA-B\nHSA-A\tHSA-C\nHSA-A\tHSA-G\nHSA-Z\tHSA-C\n"
    "HSA-B\tHSA-D\nHSA-D\tHSA-E\nHSA-D\tHSA-G\nHSA-E\tHSA-F\n",
    MEMBERS: "two\tHSA-C\tReactome Pathway\tAR\tTP53\n"
    "three\tHSA-D\tReactome Pathway\tPTEN\tMYC\tAR\n"
    "seven\tHSA-G\tReactome Pathway\tMYC\tUNKNOWN\n"
    "one\tHSA-A\tReactome Pathway\tLOST\n",
}
GENES = ("AR", "LOST", "MYC", "PTEN", "TP53")
Write = Callable[..., list[Path]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write the made-up files, with some replaced or (None) left out."""

    def write(changes: dict[str, str | None] | None = None) -> list[Path]:
        paths = []
        for name, text in (FILES | (changes or {})).items():
            if text is not None:
                paths.append(tmp_path / name)
                paths[-1].write_bytes(gzip.compress(text.encode()))
        return paths

    return write


def edges(found: Pathways, layer: int) -> set[tuple[str, str]]:
    below = found.genes if layer == 0 else found.layers[layer - 1]
    matrix = found.connections[layer].toarray()
    assert set(np.unique(matrix)) <= {0.0, 1.0}
    assert matrix.shape == (len(below), len(found.layers[layer]))
    return {(below[row], found.layers[layer][column]) for row, column in np.argwhere(matrix)}


def test_three_levels_by_hand(write: Write) -> None:
    found = read_pathways(write(), GENES, levels=3)
    # E and F are cut off, so that D is terminal: but its part G is there, at the depth 2.
    assert found.layers == (("HSA-C", "HSA-G"), ("HSA-B", "HSA-C", "HSA-G"), ("HSA-A", "HSA-Z"))
    assert edges(found, 0) == {("AR", "HSA-C"), ("TP53", "HSA-C"), ("MYC", "HSA-G")}
    # C and G are terminal at the depth 2 and repeated below; D, with a part, is in no layer.
    assert edges(found, 1) == {("HSA-C", "HSA-C"), ("HSA-G", "HSA-G")}
    assert edges(found, 2) == {
        ("HSA-B", "HSA-A"),
        ("HSA-C", "HSA-A"),
        ("HSA-C", "HSA-Z"),
        ("HSA-G", "HSA-A"),
    }


def test_two_levels_by_hand(write: Write) -> None:
    found = read_pathways(write(), GENES, levels=2)
    assert found.layers == (("HSA-B", "HSA-C", "HSA-G"), ("HSA-A", "HSA-Z"))
    assert edges(found, 0) == {("AR", "HSA-C"), ("TP53", "HSA-C"), ("MYC", "HSA-G")}
    assert edges(found, 1) == {(part, "HSA-A") for part in ("HSA-B", "HSA-C", "HSA-G")} | {("HSA-C", "HSA-Z")}


def test_genes_keep_their_order(write: Write) -> None:
    one, two = (read_pathways(write(), genes, 3) for genes in (GENES, GENES[::-1]))
    assert two.genes == GENES[::-1]
    np.testing.assert_array_equal(one.connections[0].toarray(), two.connections[0].toarray()[::-1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({RELATIONS: None}, "there is no ReactomePathwaysRelation.txt.gz among the files"),
        ({MEMBERS: None}, "there is no ReactomePathways.gmt.gz among the files"),
        ({RELATIONS: "HSA-A\tHSA-B\nHSA-A\n"}, "line 2: 1 cells, not a pathway and its part"),
        ({RELATIONS: "R-BTA-1\tR-BTA-2\n"}, "has no pathway with HSA"),
        ({MEMBERS: "two\tHSA-C\tReactome Pathway\n"}, "line 1: 3 cells, not name, identifier, kind and genes"),
    ],
)
def test_a_mistake_is_one_line_that_says_where(write: Write, changes: dict[str, str | None], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message) as raised:
        read_pathways(write(changes), GENES)
    assert "\n" not in str(raised.value)


def test_bad_arguments_and_files(write: Write, tmp_path: Path) -> None:
    paths = write()
    with pytest.raises(InvalidInputError, match="at least 1 level"):
        read_pathways(paths, GENES, 0)
    with pytest.raises(InvalidInputError, match="the same gene is given twice"):
        read_pathways(paths, ["AR", "AR"])
    (tmp_path / MEMBERS).write_bytes(b"not gzipped")
    with pytest.raises(InvalidFileError, match="cannot be unpacked"):
        read_pathways(paths, GENES)


def by_networkx(root: Path, genes: tuple[str, ...]) -> list[set[tuple[str, str]]]:
    """The connections of every layer by the authors' definition: copies hung on in a graph, layers by distance."""
    with gzip.open(root / "prostate" / RELATIONS, "rt") as stream:
        pairs = [line.split() for line in stream]
    graph = nx.DiGraph([(whole, part) for whole, part in pairs if "HSA" in whole])
    graph.add_edges_from([("root", node) for node, degree in list(graph.in_degree()) if degree == 0])
    near = nx.ego_graph(graph, "root", radius=5)
    for node in [node for node, degree in near.out_degree() if degree == 0]:
        depth = nx.shortest_path_length(near, "root", node)
        copies = [(node, level) for level in range(depth + 1, 6)]
        nx.add_path(near, [node, *copies])
    depth = nx.single_source_shortest_path_length(near, "root")

    def name(node: str | tuple[str, int]) -> str:
        return node if isinstance(node, str) else node[0]

    terminal = {name(node) for node, degree in near.out_degree() if degree == 0}
    with gzip.open(root / "prostate" / MEMBERS, "rt") as stream:
        rows = [line.strip().split("\t") for line in stream]
    known = set(genes)
    found = [{(gene, row[1]) for row in rows if row[1] in terminal for gene in row[3:] if gene in known}]
    below = terminal
    for level in (4, 3, 2, 1):
        nodes = [node for node in near if depth[node] == level]
        found.append({(name(part), name(node)) for node in nodes for part in near[node] if name(part) in below})
        below = {name(node) for node in nodes}
    return found


def test_the_real_masks_are_those_of_the_pathway_files(data_root: Path) -> None:
    genes = prostate.load().genes
    found = reactome.load(genes)
    assert [len(layer) for layer in found.layers] == [1_387, 1_066, 447, 147, 26]
    expected = by_networkx(data_root, genes)
    for layer, pairs in enumerate(expected):
        assert edges(found, layer) == pairs
    assert sum(map(len, expected)) == 18_712


def test_well_known_genes_are_in_well_known_pathways(data_root: Path) -> None:
    found = reactome.load(("AR", "TP53", "PTEN", "NOTAGENE"))
    memberships = {gene: {pathway for known, pathway in edges(found, 0) if known == gene} for gene in found.genes}
    assert "R-HSA-383280" in memberships["AR"]  # nuclear receptor transcription
    assert "R-HSA-5628897" in memberships["TP53"]  # TP53 regulates metabolic genes
    assert memberships["NOTAGENE"] == set()
