"""The protocol: which nodes, which features, and what a method may see."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.reproduce.made_up import run

from condiff.errors import InvalidInputError, StepSizeWarning
from condiff.readers.node import NodeDataset, undirected
from condiff.readers.npz_graph import save_npz_graph
from condiff.reproduce.protocol import jobs as make_jobs
from condiff.reproduce.protocol import splits_record
from condiff.reproduce.protocols import node
from condiff.reproduce.runs import Condition
from condiff.reproduce.splits import Split, random_split, write_splits


def small(n: int = 40, seed: int = 0) -> NodeDataset:
    """A ring with chords, three classes, counts as features, one node without any."""
    generator = np.random.default_rng(seed)
    weights = np.zeros((n, n))
    weights[np.arange(n), (np.arange(n) + 1) % n] = 1.0
    weights[generator.integers(0, n, 10), generator.integers(0, n, 10)] = 2.0
    features = generator.poisson(0.4, (n, 6)).astype(float)
    features[4] = 0.0
    features[5] = [0.0, 0.25, 0.0, 0.5, 0.0, 0.25]
    labels = np.arange(n) % 3
    return NodeDataset("small", undirected(sp.csr_array(weights)), sp.csr_array(features), labels)


def split_of(dataset: NodeDataset, seed: int = 0) -> Split:
    return random_split(dataset.labels, seed, train_per_class=2, validation_per_class=3)


@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed"])
def test_the_published_sizes(name: str, data_root: Path) -> None:
    dataset = node.load(name)
    nodes, edges = {"cora": (2485, 5069), "citeseer": (2120, 3679), "pubmed": (19717, 44324)}[name]
    features, classes = {"cora": (1433, 7), "citeseer": (3703, 6), "pubmed": (500, 3)}[name]
    assert (dataset.n_nodes, dataset.n_edges) == (nodes, edges)
    assert (dataset.n_features, dataset.n_classes) == (features, classes)
    unlabelled = {"cora": 0, "citeseer": 10, "pubmed": 0}[name]  # Citeseer's files know nothing of some nodes
    assert dataset.labelled.size == nodes - unlabelled
    assert sp.csgraph.connected_components(dataset.adjacency)[0] == 1
    split = random_split(dataset.labels, 0)
    assert (split.train.size, split.validation.size) == (20 * classes, 30 * classes)
    assert split.test.size == nodes - unlabelled - 50 * classes
    made = node.problem(dataset, split)
    assert made.dataset == name
    sums = np.asarray(made.features.sum(axis=1)).ravel()
    empty = np.diff(made.features.indptr) == 0
    np.testing.assert_allclose(sums[~empty], 1.0)
    assert (sums[empty] == 0).all()


def test_files_of_another_size_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "load_graph", lambda _: replace(small(), name="cora"))
    node.load.cache_clear()
    with pytest.raises(InvalidInputError, match=r"cora should have 2485 nodes and 5069 edges .* but has 40 and"):
        node.load("cora")
    node.load.cache_clear()


def test_a_users_graph_is_cut_to_its_largest_component(tmp_path: Path) -> None:
    dataset = small()
    n = dataset.n_nodes
    apart = sp.block_diag([dataset.adjacency, np.array([[0.0, 1.0], [1.0, 0.0]])], format="csr")
    features = sp.csr_array(sp.vstack([dataset.features, np.ones((2, 6))]))
    labels = np.append(dataset.labels, [0, -1])
    save_npz_graph(NodeDataset("x", sp.csr_array(apart), features, labels), tmp_path / "mine.npz")
    loaded = node.load(str(tmp_path / "mine.npz"))
    assert loaded.name == "mine"
    assert loaded.n_nodes == n
    np.testing.assert_array_equal(loaded.adjacency.toarray(), dataset.adjacency.toarray())
    np.testing.assert_array_equal(loaded.labels, dataset.labels)


def test_features_are_binarised_then_scaled_to_the_sum_one() -> None:
    features = sp.csr_array(np.array([[2.0, 0.0, -1.0], [0.0, 0.0, 0.0], [0.0, 0.5, 0.0]]))
    features.data[1] = 0.0  # a stored zero is no feature
    scaled = node.row_normalised(features, binary=True)
    np.testing.assert_array_equal(scaled.toarray(), [[1, 0, 0], [0, 0, 0], [0, 1, 0]])
    several = node.row_normalised(sp.csr_array(np.array([[2.0, 7.0, 1.0, 0.0]])), binary=True)
    np.testing.assert_allclose(several.toarray(), [[1 / 3, 1 / 3, 1 / 3, 0]])
    assert features.data[0] == 2.0  # the input is left as it is


def test_a_users_features_keep_their_values() -> None:
    features = sp.csr_array(np.array([[2.0, 0.0, -6.0], [0.0, 0.0, 0.0], [0.0, 0.5, 0.0]]))
    scaled = node.row_normalised(features, binary=False)
    np.testing.assert_array_equal(scaled.toarray(), [[0.25, 0, -0.75], [0, 0, 0], [0, 1, 0]])


def test_a_class_outside_of_the_largest_component_is_dropped(tmp_path: Path) -> None:
    dataset = small()
    apart = sp.block_diag([dataset.adjacency, np.array([[0.0, 1.0], [1.0, 0.0]])], format="csr")
    features = sp.csr_array(sp.vstack([dataset.features, np.ones((2, 6))]))
    # The class of the small component comes first, so that the others have to move up.
    labels = np.append(np.where(dataset.labels >= 0, dataset.labels + 1, -1), [0, 0])
    save_npz_graph(NodeDataset("x", sp.csr_array(apart), features, labels), tmp_path / "mine.npz")
    loaded = node.load(str(tmp_path / "mine.npz"))
    np.testing.assert_array_equal(loaded.labels, dataset.labels)


def test_a_method_sees_the_labels_of_training_and_validation_nodes_alone() -> None:
    dataset = small()
    split = split_of(dataset)
    made = node.problem(dataset, split)
    labels = made.labels.numpy()
    assert (labels[split.test] == -1).all()
    for part in (split.train, split.validation):
        np.testing.assert_array_equal(labels[part], dataset.labels[part])
    np.testing.assert_array_equal(made.train.numpy(), split.train)
    np.testing.assert_array_equal(made.validation.numpy(), split.validation)
    # Whatever the hidden labels are, a method is given the same.
    hidden = dataset.labels.copy()
    hidden[split.test] = (hidden[split.test] + 1) % 3
    again = node.problem(replace(dataset, labels=hidden), split)
    np.testing.assert_array_equal(again.labels.numpy(), labels)
    assert again.n_classes == made.n_classes


def test_the_problem_has_the_graph_and_the_scaled_features() -> None:
    dataset = small()
    made = node.problem(dataset, split_of(dataset))
    np.testing.assert_array_equal(made.graph.weights.toarray(), dataset.adjacency.toarray())
    np.testing.assert_array_equal(
        made.features.toarray(), node.row_normalised(dataset.features, binary=False).toarray()
    )
    assert (made.features.toarray()[4] == 0).all()
    assert (made.dataset, made.n_classes, made.n_nodes) == ("small", 3, 40)


def test_splits_of_one_data_set_share_graph_and_features() -> None:
    dataset = small()
    first, second = (node.problem(dataset, split_of(dataset, seed)) for seed in range(2))
    assert first.graph is second.graph
    assert first.features is second.features


def test_the_fingerprint_tells_edges_features_and_labels_apart() -> None:
    dataset = small()
    assert node.fingerprint(dataset) == node.fingerprint(small())
    labels = dataset.labels.copy()
    labels[0] = 1
    others = [
        replace(dataset, labels=labels),
        replace(dataset, features=2 * dataset.features),
        replace(dataset, adjacency=2 * dataset.adjacency),
    ]
    assert len({node.fingerprint(other) for other in [dataset, *others]}) == 4


def test_jobs_are_known_by_what_decides_their_outcome(tmp_path: Path) -> None:
    from condiff.reproduce.baselines.node.label_spreading import LabelSpreading

    dataset = small()
    path = str(tmp_path / "small.npz")
    save_npz_graph(dataset, Path(path))
    splits = {seed: split_of(dataset, seed) for seed in range(2)}
    methods = {"LabelSpreading": LabelSpreading(), "half": LabelSpreading(0.5)}
    case = node.case_of(path, splits[0])
    assert case.condition == {"train_per_class": 2, "validation_per_class": 3}
    jobs = make_jobs(node.Node(), case, methods, splits, 2)
    assert len(jobs) == 8
    assert len({str(job.key) for job in jobs}) == 8
    assert [job.seed for job in jobs] == [0] * 4 + [1] * 4  # split by split
    run = jobs[0].run()
    assert (run.task, run.dataset, run.method, run.split, run.init) == ("node", "small", "LabelSpreading", 0, 0)
    assert run.epochs == 0
    scores = LabelSpreading().solve(node.problem(dataset, splits[0]), 0).scores.argmax(1).numpy()
    right = scores == dataset.labels
    assert run.metrics["accuracy"] == pytest.approx(100 * right[splits[0].test].mean())
    assert run.metrics["validation_accuracy"] == pytest.approx(100 * right[splits[0].validation].mean())


def test_what_is_asked_for(data_root: Path) -> None:
    options = node.NodeOptions(targets=("cora", "citeseer"), method="COIN,gcn", splits=3, changes=("COIN.layers=5",))
    found = node.Node().jobs(options)
    assert len(found) == 2 * 3 * 2 * 2  # graphs, splits, methods and the protocol's two initialisations
    assert {job.key.settings.get("layers") for job in found if job.key.method == "COIN"} == {5}
    lines = splits_record(found)
    assert [(line["dataset"], line["seed"]) for line in lines] == [
        (g, s) for g in ("cora", "citeseer") for s in (0, 1, 2)
    ]
    assert {(line["train_per_class"], line["validation_per_class"]) for line in lines} == {(20, 30)}


def test_imported_splits_have_the_sizes_that_they_have(tmp_path: Path) -> None:
    dataset = small()
    path = tmp_path / "small.npz"
    save_npz_graph(dataset, path)
    uneven = Split(np.array([0, 1, 2, 3]), np.array([4, 5, 6]), np.arange(7, 40))
    write_splits(tmp_path / "splits.json", {0: split_of(dataset), 1: uneven}, "small", dataset.labels)
    options = node.NodeOptions(targets=(str(path),), method="LabelSpreading", inits=1)
    found = node.Node().jobs(replace(options, import_splits=tmp_path / "splits.json"))
    assert [(job.seed, job.case.condition["train_per_class"]) for job in found] == [(0, 2), (1, None)]
    drawn = node.Node().jobs(replace(options, splits=1, train_per_class=2, validation_per_class=3))
    assert drawn[0].key.digest == found[0].key.digest


def test_headings_leave_out_the_papers_sizes() -> None:
    paper = Condition(train_per_class=20, validation_per_class=30)
    assert node.Node().describe("cora", paper) == ("Cora",)
    assert node.Node().describe("mine", Condition(paper, train_per_class=5)) == ("mine", "5 + 30 nodes per class")
    assert node.Node().describe("mine", Condition(paper, train_per_class=None)) == ("mine", "imported splits")


def test_splits_are_of_one_graph_and_other_benchmarks_are_no_graphs() -> None:
    with pytest.raises(InvalidInputError, match="splits are of one graph"):
        node.NodeOptions(targets=("cora", "pubmed"), export_splits=Path("x"))
    with pytest.raises(InvalidInputError, match="covid is a benchmark of its own: condiff reproduce covid"):
        node.NodeOptions(targets=("covid",))


def test_what_was_chosen_and_what_is_no_better_than_chance_is_said(tmp_path: Path) -> None:
    dataset = small(120)
    path = tmp_path / "ring.npz"
    save_npz_graph(dataset, path)
    options = node.NodeOptions(targets=(str(path),), splits=2, inits=1, train_per_class=2, validation_per_class=20)
    protocol = node.Node()
    [note] = protocol.notes(options)
    assert note.startswith("ring: COIN takes one implicit step, which has no limit") and "weight decay" in note
    work = protocol.jobs(options)

    def said(right: float, tested: float = 90.0) -> list[str]:
        chosen = {"time": 4.0, "smoothed": 2.0, "edges": False, "weight_decay": 0.01}
        metrics = {"accuracy": tested, "validation_accuracy": right, **chosen}
        runs = [job.key.run(metrics, epochs=1, seconds=1.0, memory_mb=1.0) for job in work]
        return protocol.remarks(work, runs)

    chosen = (
        "ring: in COIN counts most a total time of 4 (2 of 2 runs); features averaged 2 times (2 of 2 runs); "
        "a weight decay of 0.01 (2 of 2 runs)"
    )
    assert said(90.0) == [chosen]
    assert said(35.0)[0] == chosen and "of the validation nodes, no better than chance (33.3 %)" in said(35.0)[1]
    # What was chosen on validation nodes is better there than elsewhere.
    assert "right at 30.0 % of the test nodes, no better than chance" in said(60.0, 30.0)[1]


def test_a_strength_past_a_limit_is_warned_of_where_it_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "ring.npz"
    save_npz_graph(small(60), path)
    with pytest.warns(StepSizeWarning, match="ring: strength 9 is past the stability limit"):
        node.Node().notes(node.NodeOptions(targets=(str(path),), changes=("COIN.strength=9.0",)))


@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed"])
def test_the_public_split(name: str, data_root: Path) -> None:
    [(case, splits)] = node.Node().cases(node.NodeOptions(targets=(name,), split="public"))
    labels = node.load(*case.source).labels
    [split] = splits.values()
    assert len(labels) == {"cora": 2708, "citeseer": 3327, "pubmed": 19717}[name]
    assert (np.bincount(labels[split.train]) == 20).all()
    assert (len(split.validation), len(split.test)) == (500, 1000) and (labels[split.test] >= 0).all()
    assert not set(split.test) & {*split.train, *split.validation}
    assert node.Node().describe(case.dataset, case.condition)[1] == "public split"


def test_the_public_split_is_beside_what_authors_report() -> None:
    runs = [run(dataset="cora", method="GAT", condition=Condition(split="public")), run(dataset="cora", method="GAT")]
    assert [row.published for row in node.Node().summarise(runs)] == [83.0, 80.8]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"targets": ("cora",), "split": "mine"}, "must be random or public"),
        ({"targets": ("mine.npz",), "split": "public"}, "mine.npz has no public split"),
        ({"targets": ("cora",), "split": "public", "export_splits": Path("s.json")}, "the public split is fixed"),
    ],
)
def test_what_has_no_public_split_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        node.NodeOptions(**options)


def test_a_graph_of_one_class_is_one_line(tmp_path: Path) -> None:
    ring = np.array([[node, (node + 1) % 6] for node in range(6)])
    np.savez(tmp_path / "one.npz", edges=ring, node_features=np.eye(6), node_labels=np.zeros(6, int))
    with pytest.raises(InvalidInputError, match=r"one.npz: its nodes have one class: two classes at least are needed"):
        node.load(str(tmp_path / "one.npz"))
    parts = np.concatenate([ring, [[6, 7]]])
    labels = np.array([0, 0, 0, 0, 0, 0, 1, 1])
    np.savez(tmp_path / "parts.npz", edges=parts, node_features=np.eye(8), node_labels=labels)
    with pytest.raises(InvalidInputError, match="its largest component, 6 of 8 nodes, has one class"):
        node.load(str(tmp_path / "parts.npz"))


def test_what_is_left_out_of_the_largest_component_is_said(tmp_path: Path) -> None:
    ring = np.array([[node, (node + 1) % 6] for node in range(6)])
    edges, labels = np.concatenate([ring, [[6, 7]]]), np.array([0, 0, 0, 1, 1, 1, 0, 1])
    np.savez(tmp_path / "parts.npz", edges=edges, node_features=np.eye(8), node_labels=labels)
    options = node.NodeOptions(targets=(str(tmp_path / "parts.npz"),), method="GCN")
    assert node.Node().notes(options) == [
        "parts: its largest component is taken, 6 of 8 nodes; the others are left out"
    ]
