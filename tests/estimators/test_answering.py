"""What answers instead of a saved estimator: the same answers, and none of what fits it is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from condiff import COINClassifier, COINRegressor, load
from condiff.errors import InvalidFileError, InvalidInputError
from condiff.estimators.answering import load_answers
from condiff.estimators.folders import load_state, save_state

HEAVY = ("torch", "sklearn", "pandas", "scipy.stats")


def rows(n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    kinds = np.arange(n) % 2
    return rng.normal(size=(n, 3)) + 3 * kinds[:, None], kinds


def few(y: np.ndarray, missing: Any) -> np.ndarray:
    return np.where(np.arange(len(y)) % 4 < 2, y, missing)


MODELS = {
    "network": lambda: COINClassifier(base="residual", epochs=5, n_inits=2),
    "blend": lambda: COINClassifier(base="blend"),
    "leaves": lambda: COINClassifier(base="blend", graph="leaves", layers=3),
    "values": lambda: COINRegressor(epochs=5, base="residual"),
}


@pytest.fixture(scope="module", params=sorted(MODELS))
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    x, y = rows()
    target = few(y, -1) if request.param != "values" else few(x[:, 0] ** 2, np.nan)
    folder: Path = MODELS[request.param]().fit(x, target).save(tmp_path_factory.mktemp("models") / request.param)
    return folder


def test_it_answers_as_the_estimator_does(saved: Path) -> None:
    model, answers = load(saved), load_answers(saved)
    x = np.vstack([rows()[0][:5], np.random.default_rng(1).normal(1.5, 2, size=(40, 3))])
    np.testing.assert_array_equal(answers.predict(x), model.predict(x))
    if answers.classifies:
        np.testing.assert_array_equal(answers.predict_proba(x), model.predict_proba(x))
        np.testing.assert_array_equal(answers.predict_set(x, 0.8), model.predict_set(x, 0.8))
    else:
        np.testing.assert_array_equal(answers.predict_interval(x, 0.8), model.predict_interval(x, 0.8))


def test_nothing_that_fits_is_imported_to_answer(saved: Path) -> None:
    program = (
        "import sys, numpy as np\n"
        "from condiff.estimators.answering import load_answers\n"
        f"model = load_answers({str(saved)!r})\n"
        "model.predict(np.random.default_rng(2).normal(size=(10, 3)))\n"
        f"print([name for name in {HEAVY} if name in sys.modules])\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


@pytest.mark.parametrize("x", [np.zeros((2, 4)), np.zeros(3), np.zeros((0, 3)), np.full((1, 3), np.nan)])
def test_rows_that_do_not_fit_are_refused(saved: Path, x: np.ndarray) -> None:
    with pytest.raises(InvalidInputError, match="the model"):
        load_answers(saved).predict(x)


@pytest.mark.parametrize(("name", "value"), [("solver", "magic"), ("folds", "five"), ("label_noise", 3)])
def test_parameters_that_answers_depend_on_are_checked(saved: Path, tmp_path: Path, name: str, value: Any) -> None:
    content = load_state(saved)
    save_state(tmp_path / "m", content["kind"], content["params"] | {name: value}, content["state"], None)
    with pytest.raises(InvalidFileError, match=name):
        load_answers(tmp_path / "m")


def test_what_is_no_classifier_or_regressor_is_named(saved: Path, tmp_path: Path) -> None:
    save_state(tmp_path / "m", "Thing", {}, {}, None)
    with pytest.raises(InvalidFileError, match="'Thing', not a classifier or a regressor"):
        load_answers(tmp_path / "m")


@pytest.mark.parametrize("solver", ["exact", "chebyshev"])
def test_other_solvers_answer_too(tmp_path: Path, solver: str) -> None:
    x, y = rows(40)
    model = COINClassifier(base="residual", epochs=2, n_inits=1, solver=solver, folds=0).fit(x, few(y, -1))
    answers = load_answers(model.save(tmp_path / "m"))
    np.testing.assert_array_equal(answers.predict_proba(x + 0.1), model.predict_proba(x + 0.1))
