"""How sure an answer is: the record of a fit, calibration, what the diffusion changed, and what to label next."""

from typing import TYPE_CHECKING

from condiff.lazy import names_from

if TYPE_CHECKING:
    from condiff.uncertainty.blocks import carried, column_shares
    from condiff.uncertainty.calibration import apply_temperature, fit_temperature, shrink
    from condiff.uncertainty.conformal import Promise
    from condiff.uncertainty.inspection import Change, Inspection, LabelIssue, Neighbour, Suggestion
    from condiff.uncertainty.record import FitRecord
    from condiff.uncertainty.reliable import Reliability, reliability, reliability_per_class
    from condiff.uncertainty.shares import class_shares, with_shares
    from condiff.uncertainty.suggestions import STRATEGIES, Situation, suggest

__all__ = [
    "STRATEGIES",
    "Change",
    "FitRecord",
    "Inspection",
    "LabelIssue",
    "Neighbour",
    "Promise",
    "Reliability",
    "Situation",
    "Suggestion",
    "apply_temperature",
    "carried",
    "class_shares",
    "column_shares",
    "fit_temperature",
    "reliability",
    "reliability_per_class",
    "shrink",
    "suggest",
    "with_shares",
]

__getattr__, __dir__ = names_from(
    __name__,
    {
        "blocks": ("carried", "column_shares"),
        "calibration": ("apply_temperature", "fit_temperature", "shrink"),
        "conformal": ("Promise",),
        "inspection": ("Change", "Inspection", "LabelIssue", "Neighbour", "Suggestion"),
        "record": ("FitRecord",),
        "reliable": ("Reliability", "reliability", "reliability_per_class"),
        "shares": ("class_shares", "with_shares"),
        "suggestions": ("STRATEGIES", "Situation", "suggest"),
    },
)
