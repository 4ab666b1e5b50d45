from __future__ import annotations

from pathlib import Path

from condiff.reproduce.results import write_results

MADE = {"command": "condiff bench text", "date": "2026-01-01", "machine": "a machine", "torch": "2"}


def test_splits_of_earlier_runs_of_a_folder_stay(tmp_path: Path) -> None:
    first, second = ({"dataset": "a", "seed": seed, "hash": f"h{seed}"} for seed in (0, 1))
    write_results(tmp_path, [], MADE, splits=[first])
    write_results(tmp_path, [], MADE, splits=[second, first])
    assert (tmp_path / "splits.csv").read_text() == "dataset,seed,hash\na,0,h0\na,1,h1\n"
    # Other columns are another record.
    write_results(tmp_path, [], MADE, splits=[{"dataset": "a", "hash": "h2"}])
    assert (tmp_path / "splits.csv").read_text() == "dataset,hash\na,h2\n"
