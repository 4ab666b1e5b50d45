"""Many texts from beginning to end: a table of texts is made up, fitted and answered as a user would, by the shell.

    python benchmarks/many_texts.py --rows 100000 --out FOLDER

Texts are Banking77's training questions, each varied: a word or two left out, or put in from another question of its
topic, so that nearly all are different. Three of each of the 77 topics are labelled. ``condiff fit`` and ``condiff
predict`` run as processes of their own; seconds, processor seconds and the largest memory of each are printed, and how
many of the texts without a label are answered right.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from condiff.reproduce.datasets.sources import fetch

LABELLED = 3


def make(rows: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Texts and their topics."""
    [path] = [path for path in fetch("banking77") if path.name == "banking77_train.csv"]
    with path.open(newline="", encoding="utf-8") as stream:
        known = list(csv.DictReader(stream))
    generator = np.random.default_rng(seed)
    of_topic: dict[str, list[str]] = {}
    for row in known:
        of_topic.setdefault(row["category"], []).extend(row["text"].split())
    texts, topics = [], []
    for place in generator.integers(len(known), size=rows).tolist():
        topic, words = known[place]["category"], known[place]["text"].split()
        for _ in range(int(generator.integers(1, 3))):
            at = int(generator.integers(len(words) + 1))
            if generator.random() < 0.5 and len(words) > 3:
                words = words[:at] + words[at + 1 :]
            else:
                words.insert(at, of_topic[topic][int(generator.integers(len(of_topic[topic])))])
        texts.append(" ".join(words))
        topics.append(topic)
    return texts, topics


def run(*words: str) -> None:
    """Run a command of condiff, and print what it took."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", "from condiff.cli.app import main; main()", *words])
    _, status, spent = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"condiff {words[0]} failed")
    print(
        f"condiff {words[0]}: {time.perf_counter() - start:.1f} s, {spent.ru_utime + spent.ru_stime:.1f} s of the "
        f"processor, {spent.ru_maxrss / 2**20:.2f} GB at the peak",
        flush=True,
    )


def main() -> None:
    """Make, fit, answer, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    texts, topics = make(options.rows)
    seen: dict[str, int] = {}
    labels = []
    for topic in topics:
        seen[topic] = seen.get(topic, 0) + 1
        labels.append(topic if seen[topic] <= LABELLED else "")
    options.out.mkdir(parents=True, exist_ok=True)
    table, model, answers = (options.out / name for name in ("texts.csv", "model", "answers.csv"))
    with table.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([("text", "topic"), *zip(texts, labels, strict=True)])
    run("fit", str(table), "--target", "topic", "--out", str(model))
    run("predict", str(model), str(table), "--out", str(answers))
    with answers.open(newline="", encoding="utf-8") as stream:
        found = [row["label"] for row in csv.DictReader(stream)]
    right = [said == topic for said, topic, label in zip(found, topics, labels, strict=True) if not label]
    print(f"{len(set(texts)):,} different texts, {sum(map(bool, labels))} labelled; {100 * np.mean(right):.1f} % right")


if __name__ == "__main__":
    main()
