"""Labels of which some are wrong: what looking for them gains or costs, over tables that no default was chosen on.

    python benchmarks/noisy_labels.py [--draws 5] [--labels 60] [--rows 300] [--out results/noisy-labels]

Of a random draw of labels a share is flipped, each to another class drawn evenly. Accuracy on all other rows of
``COINClassifier`` as it comes and with ``label_noise="auto"`` (with True it answers for labelled rows too, and for the
others the same); which share of the flipped labels it doubts, and how many of those that it doubts were flipped. Draws
that are in the folder already are kept.
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

FLIPPED = (0.0, 0.1, 0.2)
HEAD = "table,draw,flipped,as they are,auto,wrong,doubted,both"


def tables() -> list[str]:
    """Tables with three classes or more that no default was chosen on."""
    return [name for name in distinct_tables("classes") if not may_choose(name) and load(name).n_classes >= 3]


def measure(name: str, draw: int, labels: int, rows: int, flipped: float) -> tuple[float, float, int, int, int]:
    """Accuracy in percent as labels are and with "auto", and labels that were flipped, doubted, and both."""
    table, generator = load(name), np.random.default_rng(seed_of(name, "noise", draw))
    some = generator.permutation(len(table.target))[:rows]
    x, y = table.x[some], table.target[some]
    known = generator.permutation(len(y))[: min(labels, len(y) // 2)]
    classes = np.unique(y[known])
    given = np.full(len(y), -1)
    given[known] = y[known]
    wrong = known[: round(flipped * len(known))]
    given[wrong] = [generator.choice(classes[classes != own]) for own in y[wrong]]
    test = np.setdiff1d(np.arange(len(y)), known)

    def right(model: COINClassifier) -> float:
        return 100 * float((model.transduction_[test] == y[test]).mean())

    model = COINClassifier(label_noise="auto").fit(x, given)
    doubted = np.flatnonzero(model.doubted_)
    # Where it doubts nothing, it is the fit that there would have been.
    plain = right(COINClassifier().fit(x, given)) if len(doubted) else right(model)
    return plain, right(model), len(wrong), len(doubted), len(np.intersect1d(doubted, wrong))


def summary(lines: list[str]) -> str:
    """A line per share of flipped labels: both accuracies, their difference with its standard error over the tables."""
    found = [
        "| flipped | as they are | auto | difference | tables better, worse | wrong ones doubted | of those doubted |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    cells = [line.split(",") for line in lines]
    for flipped in FLIPPED:
        here = [cell for cell in cells if float(cell[2]) == flipped]
        names = sorted({cell[0] for cell in here})
        pairs = np.array(
            [np.mean([[float(cell[3]), float(cell[4])] for cell in here if cell[0] == name], axis=0) for name in names]
        )
        gains = pairs[:, 1] - pairs[:, 0]
        wrong, doubted, both = (sum(int(cell[place]) for cell in here) for place in (5, 6, 7))
        found.append(
            f"| {100 * flipped:.0f} % | {pairs[:, 0].mean():.1f} | {pairs[:, 1].mean():.1f} "
            f"| {gains.mean():+.2f} ± {gains.std(ddof=1) / np.sqrt(len(gains)):.2f} "
            f"| {(gains > 0).sum()}, {(gains < 0).sum()} of {len(gains)} "
            f"| {f'{100 * both / wrong:.0f} %' if wrong else '-'} | {both} of {doubted} |"
        )
    draws = len({(cell[0], cell[1]) for cell in cells}) / len({cell[0] for cell in cells})
    return "\n".join([*found, "", f"{draws:g} draw{'s' * (draws != 1)} of the labels of each table."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--labels", type=int, default=60)
    parser.add_argument("--rows", type=int, default=300, help="of a table, at most")
    parser.add_argument("--out", type=Path, default=Path("results/noisy-labels"))
    wanted = parser.parse_args()
    warnings.simplefilter("ignore")
    wanted.out.mkdir(parents=True, exist_ok=True)
    scores = wanted.out / "scores.csv"
    lines = scores.read_text().splitlines()[1:] if scores.exists() else []
    known = {tuple(line.split(",")[:3]) for line in lines}
    for draw in range(wanted.draws):
        for name in tables():
            for flipped in FLIPPED:
                if (name, str(draw), f"{flipped:g}") in known:
                    continue
                plain, auto, *counts = measure(name, draw, wanted.labels, wanted.rows, flipped)
                lines.append(f"{name},{draw},{flipped:g},{plain:.2f},{auto:.2f},{','.join(map(str, counts))}")
            write_text(scores, "\n".join([HEAD, *lines]) + "\n")
        print(f"draw {draw}\n{summary(lines)}", flush=True)
    write_text(wanted.out / "table.md", summary(lines) + "\n")


if __name__ == "__main__":
    main()
