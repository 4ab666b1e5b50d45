"""Solvers of ``u' = -strength L u`` on a graph, their step-size certificate, and the torch layer."""

from typing import TYPE_CHECKING

from condiff.lazy import names_from

if TYPE_CHECKING:
    from condiff.diffusion.boundary import diffuse_held
    from condiff.diffusion.chebyshev import Chebyshev
    from condiff.diffusion.convection import Convection, split
    from condiff.diffusion.euler import Euler
    from condiff.diffusion.exact import Exact
    from condiff.diffusion.implicit import Implicit
    from condiff.diffusion.layer import SOLVERS, Diffusion
    from condiff.diffusion.learned import GraphMixture, LearnedDiffusion, LearnedWeights, SignedHops, SignedLaplacian
    from condiff.diffusion.power import Power
    from condiff.diffusion.reaction import Anisotropic, Reaction, Steps
    from condiff.diffusion.residual import WithTime, equation_residual
    from condiff.diffusion.solver import Solver
    from condiff.diffusion.stability import Certificate, certify
    from condiff.diffusion.time import degrees_of_freedom, diffusion_time

__all__ = [
    "SOLVERS",
    "Anisotropic",
    "Certificate",
    "Chebyshev",
    "Convection",
    "Diffusion",
    "Euler",
    "Exact",
    "GraphMixture",
    "Implicit",
    "LearnedDiffusion",
    "LearnedWeights",
    "Power",
    "Reaction",
    "SignedHops",
    "SignedLaplacian",
    "Solver",
    "Steps",
    "WithTime",
    "certify",
    "degrees_of_freedom",
    "diffuse_held",
    "diffusion_time",
    "equation_residual",
    "split",
]

__getattr__, __dir__ = names_from(
    __name__,
    {
        "boundary": ("diffuse_held",),
        "chebyshev": ("Chebyshev",),
        "convection": ("Convection", "split"),
        "euler": ("Euler",),
        "exact": ("Exact",),
        "implicit": ("Implicit",),
        "layer": ("SOLVERS", "Diffusion"),
        "learned": ("GraphMixture", "LearnedDiffusion", "LearnedWeights", "SignedHops", "SignedLaplacian"),
        "power": ("Power",),
        "reaction": ("Anisotropic", "Reaction", "Steps"),
        "residual": ("WithTime", "equation_residual"),
        "solver": ("Solver",),
        "stability": ("Certificate", "certify"),
        "time": ("degrees_of_freedom", "diffusion_time"),
    },
)
