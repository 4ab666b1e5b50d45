"""condiff fit on a graph of one's own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from tests.cli.conftest import Run

from condiff import load
from condiff.readers.graph_file import read_graph
from condiff.readers.npz_graph import save_npz_graph


def test_a_folder_with_nodes_and_edges(condiff: Run, club: Path) -> None:
    result = condiff("fit", club, "--drop", "friends", "--out", club / "model")
    assert (result.code, result.err) == (0, "")
    assert "34 points, 78 edges" in result.out
    model = load(club / "model")
    sides = pd.read_csv(club / "truth.csv")["side"]
    assert (model.transduction_ == sides).mean() > 0.85


@pytest.mark.parametrize("kind", ["npz", "graphml", "json"])
def test_a_graph_in_one_file(condiff: Run, club: Path, kind: str) -> None:
    """Its nodes are the rows, its edges are not left out, and it is answered as its folder is."""
    folder = read_graph(club)
    folder = replace(folder, features=folder.features[:, :0])
    file = club / f"club.{kind}"
    if kind == "npz":
        save_npz_graph(folder, file)
    else:
        graph = nx.from_scipy_sparse_array(folder.adjacency)
        for node, label in enumerate(folder.labels.tolist()):
            if label >= 0:
                graph.nodes[node]["label"] = folder.class_names[label]
        if kind == "json":
            file.write_text(json.dumps(nx.node_link_data(graph)))
        else:
            nx.write_graphml(graph, file)
    result = condiff("fit", file, "--out", club / "model")
    assert (result.code, result.err) == (0, "")
    assert "34 points, 78 edges" in result.out
    found = load(club / "model").transduction_
    names = folder.class_names if kind != "npz" else tuple(map(str, range(folder.n_classes)))
    truth = [names[folder.class_names.index(side)] for side in pd.read_csv(club / "truth.csv")["side"]]
    assert np.mean([str(each) == side for each, side in zip(found, truth, strict=True)]) > 0.85
    answered = condiff("predict", club / "model", file, "--out", club / "answers.csv")
    assert answered.code == 0 and "34 rows" in answered.out
    condiff("fit", file, "--target", "side", "--out", club / "m").assert_failed("has no target column 'side'")


@pytest.mark.parametrize("features", [True, False])
def test_edges_beside_a_table(condiff: Run, club: Path, features: bool) -> None:
    table = club / "people.csv"
    frame = pd.read_csv(club / "nodes.csv").rename(columns={"id": "person", "label": "side"})
    (frame if features else frame[["person", "side"]]).to_csv(table, index=False)
    options = ["--target", "side", "--id", "person", "--edges", club / "edges.csv"]
    result = condiff("fit", table, *options, "--out", club / "model")
    assert (result.code, result.err) == (0, "")
    assert "78 edges" in result.out
    assert load(club / "model").graph == "precomputed"
    failed = condiff("fit", table, *options[:2], *options[4:], "--out", club / "m")
    failed.assert_failed("has no column of ids, which edges need: name it with --id COLUMN") if not features else None
    condiff("fit", table, *options, "--graph", "knn", "--out", club / "m").assert_failed("exclude each other")
    (club / "edges.csv").write_text("source,target\n0,99\n")
    condiff("fit", table, *options, "--out", club / "m").assert_failed("line 2: there is no node '99' in people.csv")
