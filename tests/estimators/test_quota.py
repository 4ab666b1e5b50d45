"""Known class sizes that the answers meet exactly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from condiff import COINClassifier, load
from condiff.errors import InvalidInputError


def _problem() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    y = (generator.random(150) < 0.2).astype(int)
    X = generator.normal(size=(150, 2)) + 1.5 * y[:, None]
    given = np.full(150, -1)
    for code in (0, 1):
        given[np.flatnonzero(y == code)[:6]] = code
    return X, y, given


@pytest.mark.parametrize("base", ["residual", "blend"])
def test_every_class_gets_its_quota(base: str, tmp_path: Path) -> None:
    X, y, given = _problem()
    sizes = {code: int((y == code).sum()) for code in (0, 1)}
    soft = COINClassifier(base=base, class_prior=sizes).fit(X, given)
    model = COINClassifier(base=base, class_prior=sizes, quota="exact").fit(X, given)
    assert np.bincount(model.transduction_).tolist() == list(sizes.values())
    assert (model.predict(X) == model.transduction_).all()
    assert (model.transduction_[given >= 0] == given[given >= 0]).all()
    assert (model.predict_proba(X).argmax(axis=1) == model.transduction_).all()
    assert (model.transduction_ == y).mean() > (soft.transduction_ == y).mean() - 0.03
    assert model.predict_set(X, 0.8)[np.arange(150), model.transduction_].all()
    again = load(model.save(tmp_path / "model"))
    new = X[:20] + 0.01
    assert (again.predict(X) == model.transduction_).all() and (again.predict(new) == model.predict(new)).all()


def test_shares_mean_the_same_as_sizes_and_are_needed() -> None:
    X, _, given = _problem()
    found = COINClassifier(base="residual", class_prior={0: 0.8, 1: 0.2}, quota="exact").fit(X, given)
    assert np.bincount(found.transduction_).tolist() == [120, 30]
    with pytest.raises(InvalidInputError, match="set class_prior"):
        COINClassifier(quota="exact").fit(X, given)


def test_sizes_that_the_labels_contradict_are_said() -> None:
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(40, 2)), np.full(40, -1)
    y[:20] = np.arange(20) % 2
    model = COINClassifier(base=LogisticRegression(), layers=2, class_prior={0: 4, 1: 36}, quota="exact")
    with pytest.warns(UserWarning, match="give one of them 4 of the 40 distinct rows, but 10 have its label"):
        model.fit(X, y)
    assert np.bincount(model.transduction_).tolist() == [10, 30]
