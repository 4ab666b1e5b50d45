"""How a metric is named, rounded and judged: one line per metric."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from condiff.errors import InvalidInputError, did_you_mean

#: Where a value is written: each has its own plus-minus sign and its own bold type.
Style: TypeAlias = Literal["plain", "markdown", "latex", "html"]
_BOLD: dict[Style, str] = {"plain": "{}", "markdown": "**{}**", "latex": r"\textbf{{{}}}", "html": "<b>{}</b>"}


@dataclass(frozen=True)
class Metric:
    """A metric as people read it.

    Parameters
    ----------
    title
        Its name on a table or an axis.
    decimals
        Those that the paper prints.
    higher_is_better
        Which way is up.
    tolerance
        A difference from the published value beyond this is marked as one.
    """

    title: str
    decimals: int
    higher_is_better: bool
    tolerance: float

    def text(self, value: float | None) -> str:
        """The value as it is printed; a dash for none."""
        return "-" if value is None else f"{self._rounded(value):.{self.decimals}f}"

    def spread_text(
        self, value: float | None, spread: float | None, style: Style = "plain", *, bold: bool = False
    ) -> str:
        """``82.2 ± 1.2``, or the value alone where there is no spread; ``bold`` is for the value."""
        if value is None:
            return "--" if style == "latex" else "-"
        text = _BOLD[style].format(self.text(value)) if bold else self.text(value)
        sign = r"$\pm$" if style == "latex" else "±"
        return text if spread is None else f"{text} {sign} {self.text(spread)}"

    def difference_text(self, difference: float | None) -> str:
        """A difference with its sign."""
        return "-" if difference is None else f"{self._rounded(difference):+.{self.decimals}f}"

    def misses(self, difference: float | None) -> bool:
        """Whether a difference from the published value, as printed, is beyond the tolerance in either direction."""
        return difference is not None and abs(self._rounded(difference)) > self.tolerance

    def _rounded(self, value: float) -> float:
        return round(value, self.decimals) + 0.0  # the sum turns -0.0 into 0.0


METRICS = {
    "mean_accuracy": Metric("mean accuracy over 1 to 5 labels per class (%)", 1, higher_is_better=True, tolerance=1.0),
    "accuracy_1": Metric("accuracy with 1 label per class (%)", 1, higher_is_better=True, tolerance=1.0),
    "accuracy_2": Metric("accuracy with 2 labels per class (%)", 1, higher_is_better=True, tolerance=1.0),
    "accuracy_5": Metric("accuracy with 5 labels per class (%)", 1, higher_is_better=True, tolerance=1.0),
    "found": Metric("planted errors found (%)", 1, higher_is_better=True, tolerance=1.0),
    "accuracy": Metric("accuracy (%)", 1, higher_is_better=True, tolerance=1.0),
    "mse": Metric("mean squared error", 4, higher_is_better=False, tolerance=0.02),
    "roc_auc": Metric("ROC-AUC", 4, higher_is_better=True, tolerance=0.02),
    "auprc": Metric("AUPRC", 4, higher_is_better=True, tolerance=0.02),
    "balanced_accuracy": Metric("balanced accuracy (%)", 2, higher_is_better=True, tolerance=1.0),
    "log_loss": Metric("log loss", 3, higher_is_better=False, tolerance=0.02),
    "calibration_error": Metric("calibration error (%)", 2, higher_is_better=False, tolerance=1.0),
    "r2": Metric("R²", 3, higher_is_better=True, tolerance=0.02),
    "relative_error": Metric("relative error", 3, higher_is_better=False, tolerance=0.02),
    "rank_accuracy": Metric("rank by accuracy", 2, higher_is_better=False, tolerance=0.5),
    "rank_balanced_accuracy": Metric("rank by balanced accuracy", 2, higher_is_better=False, tolerance=0.5),
    "rank_log_loss": Metric("rank by log loss", 2, higher_is_better=False, tolerance=0.5),
    "rank_r2": Metric("rank by R²", 2, higher_is_better=False, tolerance=0.5),
    "coverage": Metric("coverage (%)", 1, higher_is_better=True, tolerance=1.0),
    "set_size": Metric("classes per set", 2, higher_is_better=False, tolerance=0.1),
    "width": Metric("width of intervals", 2, higher_is_better=False, tolerance=0.1),
    "mase": Metric("error (MASE)", 3, higher_is_better=False, tolerance=0.02),
    "pinball": Metric("pinball loss", 3, higher_is_better=False, tolerance=0.02),
    "coverage_80": Metric("coverage of 80 % intervals (%)", 1, higher_is_better=True, tolerance=3.0),
    "coverage_95": Metric("coverage of 95 % intervals (%)", 1, higher_is_better=True, tolerance=3.0),
    "seconds": Metric("seconds", 3, higher_is_better=False, tolerance=1.0),
}


#: Where a task's table has other decimals: the paper gives accuracy two of them for few-shot tasks and for patients,
#: and means over many tables are steadier than those of one data set.
_OF_TASKS = {
    (task, "accuracy"): replace(METRICS["accuracy"], decimals=2) for task in ("fewshot", "prostate", "tables", "text")
}


def metric(name: str, task: str = "") -> Metric:
    """A metric by its name in the results, as the tables of a task print it."""
    if name not in METRICS:
        raise InvalidInputError(f"unknown metric {name!r}{did_you_mean(name, METRICS)}; known: {', '.join(METRICS)}")
    return _OF_TASKS.get((task, name), METRICS[name])
