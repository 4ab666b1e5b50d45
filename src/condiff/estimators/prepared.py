"""Rows that were encoded and joined by a graph once, for several fits with other labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from condiff.errors import InvalidInputError
from condiff.estimators.inputs import Nodes

#: The parameters that say how rows become nodes and a graph.
OF_THE_ROWS = ("graph", "n_neighbors", "bandwidth_rank", "metric", "scaling", "width")


@dataclass(frozen=True, eq=False)
class Prepared:
    """What :meth:`COINClassifier.prepare` makes of rows: it takes their place in ``fit`` and ``predict``.

    Attributes
    ----------
    numbers
        The rows as numbers, dense or CSR.
    nodes
        The nodes that they are.
    attributes
        What an estimator knows of rows that it has read.
    parameters
        Those that the rows were read with.
    """

    numbers: Any
    nodes: Nodes
    attributes: Mapping[str, Any]
    parameters: Mapping[str, Any]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of numbers."""
        return tuple(self.numbers.shape)

    def __len__(self) -> int:
        return int(self.numbers.shape[0])

    def lend_to(self, estimator: Any) -> None:
        """Let an estimator know what it would know if it had read the rows itself."""
        for name, value in self.parameters.items():
            if (own := getattr(estimator, name)) != value:
                raise InvalidInputError(
                    f"the rows were prepared with {name}={value!r}, not {own!r}: prepare them again"
                )
        if hasattr(estimator, "feature_names_in_"):  # of an earlier fit
            del estimator.feature_names_in_
        for name, value in self.attributes.items():
            setattr(estimator, name, value)
