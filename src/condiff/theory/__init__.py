"""The theory, running: the axioms, the equation that an operator solves, and the processes behind it."""

from condiff.theory.axioms import check_axioms
from condiff.theory.feynman_kac import Equation, Solution, solve
from condiff.theory.flows import GaussianFlow, constant_coefficients, ornstein_uhlenbeck, time_dependent
from condiff.theory.generator import Generator, recover, recover_on_graph
from condiff.theory.operators import (
    DiffusionOperator,
    FunctionOperator,
    GraphOperator,
    Headed,
    LinearOperator,
    NodeNetwork,
    Phases,
    Reversed,
)
from condiff.theory.processes import (
    StochasticNetwork,
    dropout,
    noise_injection,
    residual,
    residual_of,
    shake_shake,
    stochastic_depth,
)
from condiff.theory.smoothing import SmoothedClassifier, SmoothedNodes
from condiff.theory.verdicts import AXIOMS, AxiomCheck, AxiomTable, Evidence

__all__ = [
    "AXIOMS",
    "AxiomCheck",
    "AxiomTable",
    "DiffusionOperator",
    "Equation",
    "Evidence",
    "FunctionOperator",
    "GaussianFlow",
    "Generator",
    "GraphOperator",
    "Headed",
    "LinearOperator",
    "NodeNetwork",
    "Phases",
    "Reversed",
    "SmoothedClassifier",
    "SmoothedNodes",
    "Solution",
    "StochasticNetwork",
    "check_axioms",
    "constant_coefficients",
    "dropout",
    "noise_injection",
    "ornstein_uhlenbeck",
    "recover",
    "recover_on_graph",
    "residual",
    "residual_of",
    "shake_shake",
    "solve",
    "stochastic_depth",
    "time_dependent",
]
