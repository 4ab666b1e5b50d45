"""Writing shards and reading them back."""

import dataclasses
import json

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from tests.distributed.problems import problem

from condiff.distributed import Description, EdgeFile, Labels, Partition, Ranks, Shard, write_shards
from condiff.distributed import edges as edges_module
from condiff.distributed.shards import part_folder
from condiff.errors import InvalidFileError, InvalidInputError
from condiff.graph import Graph


def parts_of(folder):
    """Every rank's shard, loaded without a job."""
    size = len(Description.load(folder).parts)
    return [Shard.load(folder, Ranks(rank, size), torch.float64) for rank in range(size)]


def whole_weights(shards):
    """The weights of the whole graph, put together from rows, places and exchange lists."""
    n_nodes = sum(shard.n_nodes for shard in shards)
    weights = np.zeros((n_nodes, n_nodes))
    for rank, shard in enumerate(shards):
        border = []
        for other in shards:
            exchange = other.operator.exchange
            start = sum(exchange.send[:rank])
            border.append(other.nodes[exchange.send_rows[start : start + exchange.send[rank]].numpy()])
        columns = np.concatenate([shard.nodes, *border])
        pattern = shard.operator.pattern
        rows = shard.nodes[pattern.rows.numpy()]
        weights[rows, columns[pattern.columns.numpy()]] = shard.operator.weights.numpy()
    return weights


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("normalisation", ["symmetric", "random_walk", "none"])
def test_the_parts_make_up_the_whole(tmp_path, ranks, directed, normalisation):
    made = problem(80, directed=directed)
    loops = normalisation != "none"
    made.write(tmp_path / "s", ranks, dtype="float64", normalisation=normalisation, self_loops=loops)
    shards = parts_of(tmp_path / "s")
    graph = made.graph.normalised(normalisation, "add" if loops else "keep")
    assert np.abs(whole_weights(shards) - graph.weights.toarray()).max() < 1e-15
    laplacian = graph.laplacian(torch.float64)
    description = shards[0].description
    assert description.max_diagonal == pytest.approx(float(laplacian.diagonal.max()))
    assert description.symmetric == graph.is_symmetric
    assert description.n_entries == graph.weights.nnz
    for shard in shards:
        own = shard.nodes
        assert torch.allclose(shard.operator.diagonal, laplacian.diagonal[own], atol=1e-14)
        assert np.array_equal(shard.features.block(0, shard.n_nodes).numpy(), made.x[own])
        assert np.array_equal(shard.labels.numpy(), made.classes[own])
    assert sorted(np.concatenate([shard.nodes for shard in shards])) == list(range(80))
    train = np.concatenate([shard.nodes[shard.with_role(1)] for shard in shards])
    assert set(train) == set(made.train)


@pytest.mark.parametrize("undirected", [True, False])
def test_an_edge_list_on_disk_gives_the_bytes_of_the_graph_in_memory(tmp_path, monkeypatch, undirected):
    monkeypatch.setattr(edges_module, "BLOCK", 17)
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 50, (2, 300))
    pairs = pairs[:, pairs[0] != pairs[1]]  # with repetitions, whose weights add up
    np.save(tmp_path / "edges.npy", pairs)
    np.save(tmp_path / "x.npy", rng.normal(size=(50, 4)))
    source = EdgeFile.open(tmp_path / "edges.npy", 50, undirected=undirected)
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    labels = Labels(rng.integers(0, 2, 50), np.arange(10))
    parts = Partition(rng.integers(0, 3, 50), 3)
    write_shards(tmp_path / "disk", source, x, labels, ranks=3, parts=parts)
    ones = sp.csr_array((np.ones(pairs.shape[1]), (pairs[1], pairs[0])), shape=(50, 50))
    graph = Graph.of(ones + ones.T if undirected else ones)
    write_shards(tmp_path / "memory", graph, x, labels, ranks=3, parts=parts)
    names = sorted(path.relative_to(tmp_path / "disk") for path in (tmp_path / "disk").rglob("*.npy"))
    assert len(names) == 3 * 11
    for name in names:
        assert (tmp_path / "disk" / name).read_bytes() == (tmp_path / "memory" / name).read_bytes(), name


def test_shards_of_more_ranks_are_smaller(tmp_path):
    sizes = []
    for ranks in (1, 2, 4):
        made = problem(400).write(tmp_path / str(ranks), ranks)
        sizes.append(max(part.bytes for part in made.parts))
    assert sizes[1] < 0.7 * sizes[0]
    assert sizes[2] < 0.7 * sizes[1]


def test_sparse_features_read_in_blocks(tmp_path):
    made = problem(80)
    x = sp.random_array((80, 30), density=0.1, rng=0, format="csr")
    dataclasses.replace(made, x=x).write(tmp_path / "s", 2, dtype="float64")
    for shard in parts_of(tmp_path / "s"):
        for start, stop in ((0, 7), (7, shard.n_nodes), (5, 5)):
            assert np.array_equal(shard.features.block(start, stop).numpy(), x.toarray()[shard.nodes[start:stop]])


def test_labels_decide_the_digest_and_the_partition_does_not(tmp_path):
    one, two = problem(80).write(tmp_path / "1", 1), problem(80).write(tmp_path / "2", 2)
    assert one.problem == two.problem
    other = dataclasses.replace(problem(80), train=problem(80).train[::-1][1:])
    assert other.write(tmp_path / "3", 1).problem != one.problem


def test_a_directed_graph_keeps_isolated_nodes(tmp_path):
    weights = np.zeros((4, 4))
    weights[0, 1] = 2.0
    labels = Labels(np.zeros(4, dtype=int), [0])
    description = write_shards(tmp_path / "s", Graph.of(weights), np.ones((4, 1)), labels, ranks=4, self_loops=False)
    assert [part.entries for part in description.parts] == [0, 0, 0, 0]  # its source has no row to be scaled by
    assert description.max_diagonal == 0.0


def test_shards_replace_shards_and_nothing_else(tmp_path):
    problem(80).write(tmp_path / "s", 1)
    problem(80).write(tmp_path / "s", 2)
    assert len(Description.load(tmp_path / "s").parts) == 2
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(InvalidInputError, match="does not hold shards"):
        problem(80).write(tmp_path / "mine", 1)
    assert (tmp_path / "mine" / "thesis.txt").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": np.zeros(79, dtype=int)}, "80 whole numbers"),
        ({"classes": np.zeros(80)}, "80 whole numbers"),
        ({"train": []}, "no training node"),
        ({"train": [80]}, "outside of 0 .. 79"),
        ({"train": [0.5]}, "list of node numbers"),
        ({"train": [3], "validation": [3]}, "node 3 is for training and for validation"),
        ({"classes": np.full(80, -1), "train": [5]}, "node 5, whose label is unknown"),
        ({"x": np.ones((79, 2))}, "80 rows"),
        ({"x": np.full((80, 2), np.nan)}, "finite"),
        ({"x": sp.csr_array(np.full((80, 2), np.inf))}, "finite"),
    ],
)
def test_bad_problems_leave_nothing(tmp_path, changes, message):
    with pytest.raises(InvalidInputError, match=message):
        dataclasses.replace(problem(80), **changes).write(tmp_path / "s", 2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "float16"}, "dtype"),
        ({"normalisation": "x"}, "normalisation"),
        ({"parts": Partition(np.zeros(80, dtype=int), 1)}, "1 parts of 80 nodes, but there are 2 ranks"),
    ],
)
def test_bad_options_are_refused(tmp_path, options, message):
    with pytest.raises(InvalidInputError, match=message):
        problem(80).write(tmp_path / "s", 2, **options)


def test_edges_on_disk_cannot_be_partitioned_in_memory(tmp_path):
    source = EdgeFile(np.array([[0, 1], [1, 2]]), 3)
    with pytest.raises(InvalidInputError, match="needs the whole graph in memory"):
        write_shards(tmp_path / "s", source, np.ones((3, 1)), Labels([0, 1, 0], [0]), ranks=2, parts="metis")


def test_damaged_shards_are_refused(tmp_path):
    problem(80).write(tmp_path / "s", 2)
    with pytest.raises(InvalidInputError, match="cut for 2 rank"):
        Shard.load(tmp_path / "s", Ranks())
    np.save(part_folder(tmp_path / "s", 0) / "degree.npy", np.ones(3))
    with pytest.raises(InvalidFileError, match="degree"):
        Shard.load(tmp_path / "s", Ranks(0, 2))
    (part_folder(tmp_path / "s", 1) / "weights.npy").write_bytes(b"")
    with pytest.raises(InvalidFileError, match="weights"):
        Shard.load(tmp_path / "s", Ranks(1, 2))
    path = tmp_path / "s" / "shards.json"
    content = json.loads(path.read_text())
    for bad in ("{", json.dumps({**content, "schema": 99}), json.dumps({**content, "colour": 1}), "[]"):
        path.write_text(bad)
        with pytest.raises(InvalidFileError, match="shards"):
            Description.load(tmp_path / "s")
    path.unlink()
    with pytest.raises(InvalidFileError, match="write the shards"):
        Description.load(tmp_path / "s")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("send_rows", lambda a: a.astype(np.uint8)),
        ("send_rows", lambda a: a + 1000),
        ("indices", lambda a: a + 1000),
        ("indptr", lambda a: a[::-1].copy()),
        ("labels", lambda a: a + 1000),
        ("receive", lambda a: -a),
        ("weights", lambda a: a.astype(np.int64)),
        ("weights", lambda a: a.astype(">f8")),
        ("features", lambda a: a[:3]),
    ],
)
def test_indices_of_a_part_that_point_outside_are_refused(tmp_path, name, change):
    problem(80).write(tmp_path / "s", 2)
    path = part_folder(tmp_path / "s", 0) / f"{name}.npy"
    np.save(path, change(np.load(path)))
    with pytest.raises((InvalidFileError, InvalidInputError), match=r"write|sparse matrix"):
        Shard.load(tmp_path / "s", Ranks(0, 2))
