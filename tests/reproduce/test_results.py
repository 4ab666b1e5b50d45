from __future__ import annotations

from pathlib import Path

from condiff.files import write_text
from condiff.reproduce.results import joined_splits


def test_splits_of_earlier_runs_of_a_folder_stay(tmp_path: Path) -> None:
    path = tmp_path / "splits.csv"
    first, second = ({"dataset": "a", "seed": seed, "hash": f"h{seed}"} for seed in (0, 1))
    for splits in ([first], [second, first]):
        write_text(path, joined_splits(path, splits))
    assert path.read_text() == "dataset,seed,hash\na,0,h0\na,1,h1\n"
    # Other columns are another record.
    assert joined_splits(path, [{"dataset": "a", "hash": "h2"}]) == "dataset,hash\na,h2\n"
