"""condiff's own estimators, with every default: as a whole, without diffusion, and with the paper's network."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from condiff.reproduce.baselines.tables.method import Array, TableMethod, TableProblem
from condiff.reproduce.runs import canonical


@dataclass(frozen=True)
class COIN(TableMethod):
    """COINClassifier and COINRegressor, as they come."""

    options: ClassVar[dict[str, Any]] = {}

    def settings(self) -> dict[str, Any]:
        """A digest of all parameters: a changed default makes other runs."""
        parameters = {
            kind: {
                name: str(value) for name, value in self._estimator(kind == "classes").get_params(deep=False).items()
            }
            for kind in self.tasks
        }
        return {"defaults": hashlib.sha256(canonical(parameters).encode()).hexdigest()[:8]}

    def _estimator(self, classes: bool) -> Any:
        from condiff import COINClassifier, COINRegressor

        return (COINClassifier if classes else COINRegressor)(**self.options)

    def answers(self, problem: TableProblem, seed: int) -> Array:
        model = self._estimator(problem.task == "classes").fit(problem.x, problem.given)
        return np.asarray(model.predict_proba(problem.x) if problem.task == "classes" else model.predict(problem.x))


@dataclass(frozen=True)
class Base(COIN):
    """The same base, not diffused."""

    options: ClassVar[dict[str, Any]] = {"layers": 0}


@dataclass(frozen=True)
class Residual(COIN):
    """The paper's residual network as the base."""

    options: ClassVar[dict[str, Any]] = {"base": "residual"}
