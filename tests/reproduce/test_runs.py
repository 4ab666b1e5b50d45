import dataclasses
import pickle

import pytest
from tests.reproduce.made_up import run

from condiff.reproduce.runs import Condition


def test_a_run_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        run().split = 3  # type: ignore[misc]


def test_a_condition_is_a_frozen_mapping() -> None:
    one, two = Condition(missing=0.9, causal=False), Condition({"causal": False}, missing=0.9)
    assert one == two == {"missing": 0.9, "causal": False}
    assert hash(one) == hash(two)
    assert list(one) == ["causal", "missing"]
    assert one["missing"] == 0.9 and one.get("shots") is None
    assert Condition(one, missing=0.5) != one
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(TypeError):
        one["missing"] = 0.5  # type: ignore[index]
    with pytest.raises(KeyError):
        one["shots"]
