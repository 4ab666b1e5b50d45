from __future__ import annotations

import pytest

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.node import REGISTRY


def test_names_with_commas_or_all() -> None:
    assert list(REGISTRY.chosen(" coin , GCN", "cora")) == ["COIN", "GCN"]
    assert list(REGISTRY.chosen("All", "cora")) == list(REGISTRY.methods)
    with pytest.raises(InvalidInputError, match="unknown method 'GNC'"):
        REGISTRY.chosen("COIN,GNC", "cora")


def test_settings_are_those_for_the_data_set() -> None:
    strengths = [REGISTRY.chosen("COIN", name)["COIN"].settings()["strength"] for name in ("cora", "pubmed")]
    assert strengths == [0.35, 0.3]


def test_changes_for_one_method_or_for_all() -> None:
    found = REGISTRY.chosen("COIN,GCN", "cora", ["coin.layers=7", "training.epochs=3"])
    assert found["COIN"].settings()["layers"] == 7
    assert all(method.settings()["training"]["epochs"] == 3 for method in found.values())
    with pytest.raises(InvalidInputError, match="NAME=VALUE, not 'layers'"):
        REGISTRY.chosen("COIN", "cora", ["layers"])


def test_what_nobody_asks_for_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REGISTRY.methods, "Broken", ("no_such_module", "Unused"))
    assert REGISTRY.get("gcn").__name__ == "GCN"
    with pytest.raises(ModuleNotFoundError):
        REGISTRY.get("Broken")
