"""The 2,000 tickets of the tutorial: make the table, and print how many of those without a label are answered right.

    python benchmarks/tickets.py --out tickets.csv

200 questions of each of Banking77's ten largest intents, of which three are labelled: those that are labelled in the
sample beside the tutorial. COIN as it comes and logistic regression, on a sentence model's vectors and on words.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from condiff import COINClassifier
from condiff.encoders import TextEncoder
from condiff.reproduce.datasets.sources import fetch

SAMPLE = Path(__file__).parents[1] / "docs" / "tutorials" / "tickets.csv"
EACH, INTENTS = 200, 10


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a file."""
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def make(seed: int = 0) -> list[tuple[str, str, str]]:
    """Texts with their label, mostly empty, and their true topic."""
    paths = [path for path in fetch("banking77") if path.suffix == ".csv"]
    known = [(row["text"].strip(), row["category"]) for path in sorted(paths) for row in read(path)]
    labelled = {row["text"].strip() for row in read(SAMPLE) if row["topic"]}
    generator, rows = np.random.default_rng(seed), []
    for intent, _ in Counter(category for _, category in known).most_common(INTENTS):
        texts = [text for text, category in known if category == intent]
        chosen = list(dict.fromkeys(text for text in texts if text in labelled))
        others = generator.permutation([text for text in texts if text not in labelled])[: EACH - len(chosen)]
        topic = intent.replace("_", " ")
        rows += [(text, topic, topic) for text in chosen] + [(text, "", topic) for text in others.tolist()]
    return [rows[place] for place in generator.permutation(len(rows)).tolist()]


def main() -> None:
    """Make the table and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    texts, labels, topics = (np.array(column, dtype=object) for column in zip(*make(), strict=True))
    with options.out.open("w", newline="", encoding="utf-8") as stream:
        names = (f"T{number:04d}" for number in range(1, len(texts) + 1))
        csv.writer(stream).writerows([("ticket", "text", "topic"), *zip(names, texts, labels, strict=True)])
    known = labels != ""
    for name, embedding in (("sentence model", "auto"), ("words", "tfidf")):
        x = TextEncoder(embedding).fit_transform(texts)
        model = COINClassifier().fit(x, labels)
        right = (model.transduction_ == topics)[~known]
        surest = np.argsort(-model.predict_proba(x)[~known].max(axis=1), kind="stable")[: len(right) // 2]
        linear = LogisticRegression(max_iter=500).fit(x[known], topics[known].astype(str))
        share = (linear.predict(x) == topics)[~known].mean()
        print(f"{name}: COIN {right.mean():.1%}, {right[surest].mean():.1%} of the surer half; LR {share:.1%}")


if __name__ == "__main__":
    main()
