"""Which part of a table carried the answers."""

from __future__ import annotations

import numpy as np
import pytest

from condiff import COINClassifier, COINRegressor
from condiff.uncertainty import carried, column_shares


@pytest.fixture(autouse=True)
def words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDIFF_EMBEDDING", "tfidf")


def table(n: int = 80) -> tuple[dict[str, list[object]], np.ndarray]:
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 2, n)
    topics = [["card", "lost", "stolen", "bank"], ["rate", "exchange", "euro", "dollar"]]
    texts = [" ".join([*rng.choice(topics[kind], 4), f"ticket{row % 40}"]) for row, kind in enumerate(kinds)]
    return {"text": texts, "noise": rng.normal(size=n).tolist()}, kinds


def test_the_texts_carry_what_the_texts_say() -> None:
    columns, kinds = table()
    labels = np.where(np.arange(80) < 20, kinds, -1)
    shares = carried(COINClassifier().fit(columns, labels))
    assert set(shares) == {"text 'text'", "other columns"}
    assert shares["text 'text'"] > 0.9 > 0.8 > shares["other columns"]
    values = np.where(np.arange(80) < 30, 3.0 * kinds, np.nan)
    shares = carried(COINRegressor().fit(columns, values))
    assert shares["text 'text'"] > shares["other columns"]


def test_one_part_has_nothing_to_compare() -> None:
    columns, kinds = table()
    labels = np.where(np.arange(80) < 20, kinds, -1)
    assert carried(COINClassifier().fit({"text": columns["text"]}, labels)) == {}
    assert carried(COINClassifier().fit(np.random.default_rng(0).normal(size=(80, 3)), labels)) == {}


def test_columns_by_themselves_the_telling_one_first() -> None:
    generator = np.random.default_rng(0)
    kinds = np.arange(80) % 2
    columns = {
        "noise": generator.normal(size=80).tolist(),
        "height": (6.0 * kinds + generator.normal(size=80)).tolist(),
    }
    columns["colour"] = [("red", "blue", None)[row % 3] for row in range(80)]
    model = COINClassifier(base="residual", layers=10, n_inits=1).fit(columns, np.where(np.arange(80) < 30, kinds, -1))
    shares = column_shares(model)
    assert set(shares) == {"noise", "height", "colour"}
    assert next(iter(shares)) == "height"
    assert shares["height"] > 0.9 > 0.8 > shares["noise"]
