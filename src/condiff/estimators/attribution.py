r"""Why a gene-wise network predicts what it does for a patient: from its genes, and from the patients it is joined to.

The network is linear between the kinks of its hidden units, and the diffusion is linear, so nothing here is
approximated:

- the output before the sigmoid is a sum over the patient's alterations, and a constant (:func:`contributions`);
- the integrated gradients of the output (Sundararajan, Taly and Yan 2017), from a patient without alterations, have a
  closed form between two kinks (:func:`integrated_gradients`);
- the diffused output is a weighted mean :math:`u_K = P u_0` over all patients, which carries both over to it
  (:func:`explain`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.special import expit

from condiff.bases.genewise import GeneWise
from condiff.errors import InvalidInputError, StepSizeWarning
from condiff.graph import laplacian
from condiff.model import COIN
from condiff.training.readout import diffusion_rows

Floats = NDArray[np.float64]
# Closer than this, the slope of the sigmoid between two outputs is its derivative there.
_SAME = 1e-6


@dataclass(frozen=True, eq=False)
class Explanation:
    """Where the output for one patient comes from.

    Parameters
    ----------
    patient
        Its row in the table.
    before, after
        The output before and after the diffusion.
    reference
        The output for a patient without any alteration, among others without any.
    inputs
        (genes * kinds,): what each alteration added, the patient's own and those of all others that were diffused to
        it. ``reference + inputs.sum()`` is ``after``.
    pulls
        (n,): how far each patient moved the output, by how much it differs and how strongly the two are joined, over
        any number of steps. ``before + pulls.sum()`` is ``after``.
    """

    patient: int
    before: float
    after: float
    reference: float
    inputs: Floats
    pulls: Floats

    def genes(self, kinds: int) -> Floats:
        """What each gene added, by all of its kinds of alterations."""
        return np.asarray(self.inputs.reshape(-1, kinds).sum(1))


def explain(model: COIN, x: sp.csr_array, graph: Any, patients: Sequence[int]) -> list[Explanation]:
    """Explain the diffused output of a gene-wise network for some patients.

    Parameters
    ----------
    model
        A fitted network whose base is :class:`GeneWise` with one output, with a sigmoid.
    x
        Features of all patients, (n, genes * kinds).
    graph
        The graph it was diffused over, in any form that the network accepts.
    patients
        Rows of ``x``.
    """
    own = integrated_gradients(model, x)
    rows = torch.as_tensor(list(patients), dtype=torch.long)
    with warnings.catch_warnings():
        # Fitting the network has already warned of a step that is too large.
        warnings.simplefilter("ignore", StepSizeWarning)
        weights = diffusion_rows(model.diffusion, laplacian(graph, torch.float64), rows).numpy()
    before = _outputs(model, x)
    reference = float(_outputs(model, sp.csr_array((1, x.shape[1])))[0])
    pulls = weights * (before - before[rows.numpy(), None])
    return [
        Explanation(patient, float(before[patient]), float(before[patient] + pull.sum()), reference, inputs, pull)
        for patient, inputs, pull in zip(rows.tolist(), weights @ own, pulls, strict=True)
    ]


def contributions(model: COIN, x: sp.csr_array) -> tuple[sp.csr_array, Floats]:
    """What each alteration of each patient adds to its output before sigmoid and diffusion, and the constant.

    The constant is of those hidden units that are active for the patient; together with the row it sums to the output
    exactly.
    """
    parts = _Parts.of(model, x)
    active = parts.values(x)[0] > 0
    slopes = np.concatenate([np.ones((x.shape[0], 1)), active * parts.outer], axis=1)
    return _spread(x, parts, slopes), parts.constant + (active * parts.outer) @ parts.unit_constants


def integrated_gradients(model: COIN, x: sp.csr_array) -> sp.csr_array:
    """What each alteration of each patient adds to its own output before the diffusion, (n, genes * kinds).

    Rows sum to the output less that for a patient without alterations. On the straight path from no alterations to the
    patient, a hidden unit turns on or off at most once; between two such points the output before the sigmoid is linear
    in the path's parameter t, and the sigmoid's mean slope is its rise divided by that of its input.
    """
    parts = _Parts.of(model, x)
    units, shortcut = parts.values(x)
    # Every unit, and the shortcut, is start + t * rise.
    starts, rises = parts.unit_constants, units - parts.unit_constants
    with np.errstate(divide="ignore", invalid="ignore"):
        kinks = -starts / rises
    kinks = np.where((kinks > 0) & (kinks < 1), kinks, 1.0)
    n = x.shape[0]
    places = np.sort(np.concatenate([np.zeros((n, 1)), kinks, np.ones((n, 1))], axis=1), axis=1)
    middles, lengths = (places[:, 1:] + places[:, :-1]) / 2, np.diff(places, axis=1)
    # (patients, pieces, units)
    active = starts + middles[..., None] * rises[:, None] > 0
    outputs = parts.constant + places * (shortcut - parts.constant)[:, None]
    outputs += np.maximum(starts + places[..., None] * rises[:, None], 0) @ parts.outer
    slope = lengths * _mean_slope(outputs[:, :-1], outputs[:, 1:])
    slopes = np.concatenate([slope.sum(1)[:, None], (slope[..., None] * active).sum(1) * parts.outer], axis=1)
    return _spread(x, parts, slopes)


@dataclass(frozen=True, eq=False)
class _Parts:
    """A network as plain arrays, its first layer multiplied into what reads it.

    ``constant`` and the first row of ``readers`` are the shortcut's; the others are those of the hidden units.
    """

    constant: float
    unit_constants: Floats
    readers: Floats
    outer: Floats

    @classmethod
    def of(cls, model: COIN, x: sp.csr_array) -> _Parts:
        base = model.convection
        if not isinstance(base, GeneWise) or base.outer.out_features != 1 or model.head != "sigmoid":
            raise InvalidInputError("only a network with a GeneWise base, one output and a sigmoid can be explained")
        base.check_width(x.shape[1])
        layers = [base.inner] if base.shortcut is None else [base.shortcut, base.inner]
        weights = np.concatenate([_array(layer.weight) for layer in layers])
        biases = np.concatenate([_array(layer.bias) for layer in layers])
        if base.shortcut is None:
            weights = np.concatenate([np.zeros((1, weights.shape[1])), weights])
            biases = np.concatenate([[0.0], biases])
        constants = biases + weights @ _array(base.bias)
        readers = np.repeat(weights, base.weight.shape[1], axis=1) * _array(base.weight).ravel()
        outer = _array(base.outer.weight)[0]
        return cls(float(constants[0] + _array(base.outer.bias)[0]), constants[1:], readers, outer)

    def values(self, x: sp.csr_array) -> tuple[Floats, Floats]:
        """Hidden units before their activation, (n, units), and the shortcut with all constants, (n,)."""
        values = x.astype(np.float64) @ self.readers.T
        return values[:, 1:] + self.unit_constants, values[:, 0] + self.constant


def _array(tensor: torch.Tensor) -> Floats:
    return tensor.detach().double().cpu().numpy()


def _outputs(model: COIN, x: sp.csr_array) -> Floats:
    parts = _Parts.of(model, x)
    units, shortcut = parts.values(x)
    return np.asarray(expit(shortcut + np.maximum(units, 0) @ parts.outer))


def _mean_slope(one: Floats, two: Floats) -> Floats:
    """The mean derivative of the sigmoid between two inputs."""
    rise, middle = two - one, expit((one + two) / 2)
    near = np.abs(rise) < _SAME
    slope: Floats = np.where(near, middle * (1 - middle), (expit(two) - expit(one)) / np.where(near, 1.0, rise))
    return slope


def _spread(x: sp.csr_array, parts: _Parts, slopes: Floats) -> sp.csr_array:
    """For every entry of x: its value times the sum, over shortcut and units, of their slope and what they read."""
    entries = x.tocoo()
    values = entries.data * (slopes[entries.row] * parts.readers[:, entries.col].T).sum(1)
    return sp.csr_array((values, (entries.row, entries.col)), shape=x.shape)
