import dataclasses
import json

import pytest
from tests.reproduce.made_up import run

from condiff.errors import InvalidInputError
from condiff.reproduce.runs import Run


def test_a_run_comes_back_from_json() -> None:
    made = run(settings={"layers": 20, "training": {"weight_decay": 0.01, "patience": None}, "sizes": [1, 2]})
    assert Run.from_dict(json.loads(json.dumps(made.to_dict()))) == made


def test_a_run_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        run().split = 3  # type: ignore[misc]


def test_missing_and_unknown_fields_are_named() -> None:
    values = run().to_dict() | {"accuracy": 3.0}
    del values["epochs"]
    with pytest.raises(InvalidInputError, match=r"missing or unknown: \['accuracy', 'epochs'\]"):
        Run.from_dict(values)
