"""Labels of which some are wrong: what looking for them gains or costs, over tables that no default was chosen on.

    python benchmarks/noisy_labels.py [--draws 5] [--labels 60] [--rows 400] [--out results/noisy-labels/scores.csv]

Of a random draw of labels a share is flipped, each to another class drawn evenly. Accuracy on all other rows of
``COINClassifier`` as it comes, with ``noisy_labels=True`` and with ``noisy_labels="auto"``; of the last also which
share of the flipped labels it doubts, and how many of those that it doubts were flipped.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np

from condiff import COINClassifier
from condiff.files import write_text
from condiff.reproduce.datasets.ordinary_tables import distinct_tables, may_choose, seed_of
from condiff.reproduce.protocols.tables import load

WAYS = {"as they are": False, "true": True, "auto": "auto"}
FLIPPED = (0.0, 0.1, 0.2)


def tables() -> list[str]:
    """Tables with three classes or more that no default was chosen on."""
    return [name for name in distinct_tables("classes") if not may_choose(name) and load(name).n_classes >= 3]


def measure(name: str, draw: int, labels: int, rows: int, flipped: float) -> dict[str, tuple[float, int, int, int]]:
    """Accuracy in percent of each way, and labels that were flipped, doubted, and both."""
    table, generator = load(name), np.random.default_rng(seed_of(name, "noise", draw))
    some = generator.permutation(len(table.target))[:rows]
    x, y = table.x[some], table.target[some]
    known = generator.permutation(len(y))[: min(labels, len(y) // 2)]
    classes = np.unique(y[known])
    given = np.full(len(y), -1)
    given[known] = y[known]
    wrong = known[: round(flipped * len(known))]
    given[wrong] = [generator.choice(classes[classes != own]) for own in y[wrong]]
    test, found = np.setdiff1d(np.arange(len(y)), known), {}
    for way, noisy in WAYS.items():
        model = COINClassifier(noisy_labels=noisy).fit(x, given)
        doubted = np.flatnonzero(model.doubted_)
        right = 100 * float((model.transduction_[test] == y[test]).mean())
        found[way] = right, len(wrong), len(doubted), len(np.intersect1d(doubted, wrong))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--labels", type=int, default=60)
    parser.add_argument("--rows", type=int, default=400, help="of a table, at most")
    parser.add_argument("--out", type=Path)
    wanted = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = ["table,draw,flipped,way,accuracy,wrong,doubted,both"]
    for name in tables():
        for draw in range(wanted.draws):
            for flipped in FLIPPED:
                found = measure(name, draw, wanted.labels, wanted.rows, flipped)
                for way, (right, *counts) in found.items():
                    lines.append(f"{name},{draw},{flipped:g},{way},{right:.2f},{','.join(map(str, counts))}")
        print(name, flush=True)
    cells = [line.split(",") for line in lines[1:]]
    print(f"\n| flipped | {' | '.join(WAYS)} | wrong labels doubted | doubted labels wrong |")
    print("| --- | --- | --- | --- | --- | --- |")
    for flipped in FLIPPED:
        here = [cell for cell in cells if float(cell[2]) == flipped]
        means = [np.mean([float(cell[4]) for cell in here if cell[3] == way]) for way in WAYS]
        wrong, doubted, both = (sum(int(cell[place]) for cell in here if cell[3] == "auto") for place in (5, 6, 7))
        shares = f"{100 * both / max(wrong, 1):.0f} % | {100 * both / max(doubted, 1):.0f} %"
        print(f"| {100 * flipped:.0f} % | {' | '.join(f'{mean:.1f}' for mean in means)} | {shares} |")
    if wanted.out is not None:
        wanted.out.parent.mkdir(parents=True, exist_ok=True)
        write_text(wanted.out, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
