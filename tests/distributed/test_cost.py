import dataclasses

import numpy as np
import pytest
from tests.distributed.problems import problem

from condiff.distributed import Labels, Partition, write_shards
from condiff.distributed.cost import Measurement, Rates, Workload, cost, fit_rates, product_bytes, random_border_share
from condiff.errors import InvalidInputError
from condiff.graph import Graph

RATES = Rates(product_byte=1e-9, flop=1e-10, message=1e-4, network_byte=1e-8, process_bytes=3e8, startup=0.7)
WORK = Workload(n_nodes=1e6, n_edges=1e7, n_columns=10, n_features=64, n_weights=5000, layers=20, border_share=0.5)


def test_one_rank_sends_nothing():
    alone = cost(WORK, 1, RATES)
    assert alone.bytes_per_epoch == alone.messages_per_layer == alone.exchange_seconds == 0
    # 2.1e7 weights, 48 bytes each, 40 products.
    assert alone.product_seconds == pytest.approx(2.1e7 * 48 * 40 * 1e-9)
    assert alone.base_seconds == pytest.approx(1e6 * 5000 * 8 * 1e-10)
    assert alone.mapped == 64 * 4 * 1e6


def test_four_ranks_by_hand():
    shared = cost(WORK, 4, RATES)
    assert shared.bytes_per_layer == 0.5 * 250_000 * 40
    assert shared.messages_per_layer == 3
    assert shared.bytes_per_epoch == 40 * shared.bytes_per_layer
    assert shared.exchange_seconds == pytest.approx(40 * (3e-4 + 5e6 * 1e-8))
    assert shared.product_seconds == pytest.approx(cost(WORK, 1, RATES).product_seconds / 4)
    assert shared.epoch_seconds == pytest.approx(shared.product_seconds + shared.base_seconds + shared.exchange_seconds)
    assert shared.to_dict()["epoch_seconds"] == shared.epoch_seconds


def test_memory_falls_with_ranks_down_to_the_process_itself():
    memory = [cost(WORK, ranks, RATES).memory for ranks in (1, 2, 4, 8, 10_000)]
    assert memory == sorted(memory, reverse=True)
    assert memory[-1] == pytest.approx(RATES.process_bytes + 4 * 16_384 * 4 * 64 + 16 * 5000, rel=1e-3)


def test_bytes_of_real_shards_are_those_of_the_model(tmp_path):
    description = problem().write(tmp_path / "s", 4)
    work = Workload.of(description, 60, 5)
    assert work.n_entries == description.n_entries
    sends = [part.sends for part in description.parts]
    assert cost(work, 4, RATES).bytes_per_layer == pytest.approx(np.mean(sends) * 3 * 4)


def test_a_random_partition_sends_what_probability_says(tmp_path):
    rng = np.random.default_rng(0)
    n_nodes, degree = 600, 6
    steps = np.arange(1, degree // 2 + 1)
    rows = np.repeat(np.arange(n_nodes), steps.size)
    columns = (rows + np.tile(steps, n_nodes)) % n_nodes
    graph = Graph.of(np.stack([np.concatenate([rows, columns]), np.concatenate([columns, rows])]))
    labels = Labels(np.zeros(n_nodes, dtype=int), [0])
    parts = Partition(rng.integers(0, 4, n_nodes), 4)
    description = write_shards(tmp_path / "s", graph, np.ones((n_nodes, 1)), labels, ranks=4, parts=parts)
    share = Workload.of(description, 1, 1).border_share
    assert share == pytest.approx(random_border_share(degree, 4), rel=0.05)


def test_rates_are_found_again():
    measured = []
    for nodes, entries, columns, epochs, ranks in ((1e4, 1e5, 3, 10, 1), (4e4, 1e6, 10, 5, 2), (2e4, 9e4, 40, 8, 4)):
        messages, payload = 1000.0 * (ranks - 1), 3e5 * (ranks - 1) * columns
        compute = RATES.product_byte * product_bytes(entries, columns) * 20 * (2 * epochs + 2)
        compute += RATES.flop * 2 * 5000 * nodes * (4 * epochs + 2) + RATES.startup
        measured.append(
            Measurement(
                nodes,
                entries,
                columns,
                5000,
                20,
                epochs,
                messages,
                payload,
                compute,
                RATES.message * messages + RATES.network_byte * payload,
                3e8 + 1e6,
                1e6,
            )
        )
    found = fit_rates(measured)
    assert dataclasses.asdict(found) == pytest.approx(dataclasses.asdict(RATES), rel=1e-6)


def test_measurements_come_from_a_report(tmp_path):
    description = problem().write(tmp_path / "s", 2)
    used = {"messages": 4, "payload": 100, "seconds": 0.5, "peak_memory": 5e8, "shard_bytes": 10}
    first, second = Measurement.of({"epochs": 3, "seconds": 2.0, "ranks": [used, used]}, description, 7, 5)
    assert first.compute_seconds == 1.5
    assert second.entries == description.parts[1].entries


def test_wrong_arguments_are_refused():
    with pytest.raises(InvalidInputError, match="ranks"):
        cost(WORK, 0, RATES)
    with pytest.raises(InvalidInputError, match="at least one measurement"):
        fit_rates([])
