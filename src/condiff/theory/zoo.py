"""The framework's examples as operators, each with its velocity and diffusion, and some that break an axiom."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from scipy.special import softmax
from scipy.stats import poisson
from sklearn.datasets import make_moons
from torch import nn

from condiff.bases import Residual
from condiff.diffusion import (
    Anisotropic,
    Convection,
    Diffusion,
    LearnedWeights,
    Reaction,
    SignedHops,
    Steps,
    certify,
    split,
)
from condiff.diffusion.learned import Form
from condiff.errors import InvalidInputError, did_you_mean
from condiff.graph import Graph, kernel_graph
from condiff.theory.axioms import check_axioms
from condiff.theory.flows import constant_coefficients
from condiff.theory.operators import (
    Array,
    DiffusionOperator,
    Function,
    FunctionOperator,
    Headed,
    LinearOperator,
    NodeNetwork,
    Operator,
    Phases,
    Reversed,
    layers_between,
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
from condiff.theory.verdicts import AxiomTable, tables_markdown

NOISE = 0.5
KEEP = 0.7


@dataclass(frozen=True)
class Entry:
    """One example.

    Attributes
    ----------
    name
        What the command line calls it.
    title
        What the table calls it.
    v, sigma
        Its velocity and its diffusion in words.
    build
        Makes the operator.
    counterexample
        Whether it is here because something is wrong with it.
    points
        Where the nodes of a graph lie.
    known
        Points and a time to v and sigma; networks with noise know theirs.
    """

    name: str
    title: str
    v: str
    sigma: str
    build: Callable[[], Operator]
    counterexample: bool = False
    points: Callable[[], Array] | None = None
    known: Callable[[Array, float], tuple[Array, Array]] | None = None

    def coefficients(self, x: Array, t: float = 0.0) -> tuple[Array, Array] | None:
        """The velocity (n, d) and the diffusion matrix (n, d, d) that the example is said to have, or None."""
        if self.known is not None:
            return self.known(x, t)
        operator = self.build()
        return (operator.drift(x, t), operator.sigma(x, t)) if isinstance(operator, StochasticNetwork) else None

    def check(self) -> AxiomTable:
        """Its row of the axiom table, computed now."""
        return check_axioms(self.build(), name=self.title)


def field(x: Array, t: float = 0.0) -> Array:
    """The velocity that the networks with noise share: one hidden layer, its weights turning with time."""
    turn = np.array([[0.5, -1.0], [1.0, 0.3]]) + 0.4 * t * np.array([[0.0, 1.0], [-1.0, 0.0]])
    return np.asarray(np.tanh(x @ turn + 0.2))


def second_field(x: Array, t: float = 0.0) -> Array:
    """The other branch of shake-shake."""
    return np.asarray(np.sin(x @ np.array([[0.8, 0.1], [-0.6, 0.5]]) - 0.1))


def small_resnet(blocks: int = 8, *, activation: str = "relu", strength: float = 1.0) -> Residual:
    """A residual network on R^2 of ``blocks`` thin blocks; its weights turn slowly from block to block."""
    network = Residual(2, 2, blocks=blocks, activation=activation).double()
    start, turn = np.random.default_rng(0).normal(size=(2, 2, 2)) * strength
    with torch.no_grad():
        for k, block in enumerate(network.blocks):
            depth = (k + 0.5) / blocks
            weight = (start + depth * turn) / blocks
            assert isinstance(block, nn.Linear)
            block.weight.copy_(torch.as_tensor(weight))
            block.bias.copy_(torch.tensor([0.3, -0.2], dtype=torch.float64) / blocks)
        # The read-out is the classifier f, not part of the flow.
        network.readout.weight.copy_(torch.eye(2, dtype=torch.float64))
        network.readout.bias.zero_()
    return network


@lru_cache
def moons(n: int = 40) -> tuple[Array, Graph]:
    """Two moons and their graph, on which the graph networks are checked."""
    points, _ = make_moons(n, noise=0.05, random_state=0)
    return np.asarray(points, dtype=np.float64), kernel_graph(points)


def _places() -> Array:
    return moons()[0]


def _adjacency() -> tuple[Array, Array]:
    points, graph = moons()
    adjacency = (graph.weights.toarray() > 0).astype(float)
    return points, np.asarray(adjacency - np.diag(adjacency.diagonal()))


def _smoothed_resnet(variance: float) -> Phases:
    """A residual network up to time 1, then the heat flow whose Gaussian has this variance."""
    convection = Reversed(residual_of(small_resnet()))
    return Phases([convection, constant_coefficients([0.0, 0.0], variance / 2)])


def _smoothed_coefficients(variance: float) -> Callable[[Array, float], tuple[Array, Array]]:
    network = residual_of(small_resnet())

    def known(x: Array, t: float) -> tuple[Array, Array]:
        if t < 1:
            # The equation's time runs from the last layer to the first: the one that ends here.
            return network.drift(x, 1 - t - 1e-4 * network.step), np.zeros((len(x), 2, 2))
        return np.zeros_like(x), np.broadcast_to(variance / 2 * np.eye(2), (len(x), 2, 2))

    return known


def _grand() -> LinearOperator:
    points, adjacency = _adjacency()
    squares = ((points[:, None] - points[None]) ** 2).sum(-1)
    loops = adjacency + np.eye(len(points))
    attention = softmax(np.where(loops > 0, -4 * squares, -np.inf), axis=1)
    return LinearOperator(attention - np.eye(len(points)), horizon=2.0, points=points)


def _dgc() -> LinearOperator:
    points, adjacency = _adjacency()
    smoothing = Graph.of(adjacency).normalised("symmetric", "add").weights.toarray()
    return LinearOperator(smoothing - np.eye(len(points)), step=0.25, horizon=2.0, points=points)


def _resolvent() -> NodeNetwork:
    """COIN-resolvent's step of thickness h: the inverse of I + h (I - S)."""
    points, adjacency = _adjacency()
    rate = np.eye(len(points)) - Graph.of(adjacency).normalised("symmetric", "add").weights.toarray()

    def layer(u: Array, time: float, thickness: float) -> Array:
        return np.asarray(np.linalg.solve(np.eye(len(points)) + thickness * rate, u))

    return NodeNetwork(layer, adjacency, step=1.0, horizon=2.0, points=points)


def _graph_convection() -> LinearOperator:
    """What a convection of densities down a potential does to functions: its adjoint."""
    points, adjacency = _adjacency()
    moved = Convection.down(points[:, 1], Graph.of(adjacency))
    return LinearOperator(
        moved.generator.to_dense().numpy().T, step=moved.limit, horizon=8 * moved.limit, points=points
    )


def _learned(form: Form) -> LinearOperator:
    """Weights as they may have been learned: those of parameters large enough to tell edges apart."""
    points, adjacency = _adjacency()
    graph = Graph.of(adjacency).normalised("symmetric", "add")
    made = LearnedWeights(2, form=form, width=2).double()
    with torch.no_grad():
        for layer in {made.query, made.key}:
            layer.weight.copy_(torch.as_tensor(2 * np.random.default_rng(0).normal(size=(2, 2))))
        made.bias.fill_(-1.0)  # some scores are negative, some positive
        matrix = made(torch.from_numpy(points), graph)(torch.eye(len(points), dtype=torch.float64)).numpy()
    return LinearOperator(-matrix, step=made.limit(graph), horizon=8 * made.limit(graph), points=points)


def _signed_hops() -> LinearOperator:
    """A hidden feature of COIN-reaction that is told from its neighbours: what one of its steps adds, as a rate."""
    points, adjacency = _adjacency()
    walk = torch.from_numpy(Graph.of(adjacency).normalised("symmetric", "add").weights.toarray())
    made = SignedHops(len(points)).double()
    with torch.no_grad():
        made.weights.copy_(torch.tensor([[3.0], [-2.0], [1.0]]).expand_as(made.weights))
        identity = torch.eye(len(points), dtype=torch.float64)
        rate = (made(identity, lambda u: walk @ u) - identity).numpy()
    return LinearOperator(rate, step=1.0, horizon=8.0, points=points)


def _anisotropic() -> LinearOperator:
    """Edges that go up count a fifth of those that go sideways."""
    points, adjacency = _adjacency()
    across = 1 / (1 + 4 * (abs(points[:, None, 1] - points[None, :, 1]) > abs(points[:, None, 0] - points[None, :, 0])))
    made = Anisotropic(Graph.of(adjacency).normalised("symmetric", "add"), per_edge=across)
    return LinearOperator(made.generator.to_dense().numpy(), step=made.limit, horizon=8 * made.limit, points=points)


def _per_class() -> NodeNetwork:
    """Two classes, of which the second is diffused three times as strongly."""
    points, adjacency = _adjacency()
    made = Anisotropic(Graph.of(adjacency).normalised("symmetric", "add"), [1.0, 3.0])

    def layer(u: Array, time: float, thickness: float) -> Array:
        return np.asarray(made(torch.from_numpy(u), thickness, 1).numpy())

    return NodeNetwork(layer, adjacency, step=made.limit, horizon=8 * made.limit, channels=2, points=points)


def _interleaved(flow: Callable[[torch.Tensor, float], torch.Tensor], *, strang: bool) -> NodeNetwork:
    """A flow on the two classes of every node in turn with diffusion layers."""
    points, adjacency = _adjacency()
    heat = Anisotropic(Graph.of(adjacency).normalised("symmetric", "add"))
    solve = split(flow, heat, strang=strang)

    def layer(u: Array, time: float, thickness: float) -> Array:
        return np.asarray(solve(torch.from_numpy(np.ascontiguousarray(u)), thickness, 1).numpy())

    return NodeNetwork(layer, adjacency, step=heat.limit, horizon=8 * heat.limit, channels=2, points=points)


def _block(u: torch.Tensor) -> torch.Tensor:
    """A residual branch on the two classes of a node."""
    return torch.tanh(u @ torch.tensor([[0.5, -1.0], [1.0, 0.3]], dtype=u.dtype))


def _pde_gcn(activation: Callable[[Array], Array]) -> NodeNetwork:
    points, adjacency = _adjacency()
    ends = np.argwhere(np.triu(adjacency) > 0)
    gradient = np.zeros((len(ends), len(points)))
    gradient[np.arange(len(ends)), ends[:, 0]], gradient[np.arange(len(ends)), ends[:, 1]] = 1.0, -1.0
    step = 0.5 / adjacency.sum(1).max()

    def layer(u: Array, time: float, thickness: float) -> Array:
        return np.asarray(u - thickness * gradient.T @ activation(gradient @ u))

    return NodeNetwork(layer, adjacency, step=step, horizon=8 * step, points=points)


# Three nodes in a row with one feature each: the state of all of them is a point of R^3.
_ROW = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
_SPREAD = Graph.of(_ROW).normalised("symmetric", "add").weights.toarray()
_RATES = np.array([0.9, 0.6, 0.8])
_ENCODED = np.array([0.5, -0.3, 0.1])


def cgnn_field(x: Array, t: float = 0.0) -> Array:
    """CGNN's: the features spread, and the encoded input, a parameter here, is fed in."""
    return np.asarray(0.5 * _RATES * (x @ _SPREAD.T - x) + _ENCODED)


def gcde_field(x: Array, t: float = 0.0) -> Array:
    """GCDE's: two graph convolutions with a softplus between them."""
    hidden = np.logaddexp(0.0, 1.2 * (x @ _SPREAD.T) - 0.2)
    return np.asarray(-0.7 * hidden @ _SPREAD.T + 0.3)


def _cgnn_with_memory(f: Function, x: Array, t: float, s: float) -> Array:
    state = x
    for _, thickness in layers_between(s, t, 0.125):
        state = state + thickness * (cgnn_field(state) - _ENCODED + x)
    return f(state)


def _jumps(f: Function, x: Array, t: float, s: float) -> Array:
    counts = np.arange(13)
    weights = poisson.pmf(counts, t - s)
    length = np.array([1.0, -0.5])
    return np.asarray(sum(w * f(x + k * length) for k, w in zip(counts, weights / weights.sum(), strict=True)))


def _plain_layers(f: Function, x: Array, t: float, s: float) -> Array:
    weight = np.array([[0.9, -0.5], [0.6, 1.1]])
    for _ in layers_between(s, t, 0.25):
        x = np.tanh(x @ weight + 0.1)
    return f(x)


def _past_the_limit() -> DiffusionOperator:
    points, graph = moons()
    return DiffusionOperator(graph, Diffusion(8, 2 * certify(graph).positivity_limit), points=points)


def _coin() -> DiffusionOperator:
    points, graph = moons()
    return DiffusionOperator(graph, points=points)


def _softmax_after() -> Headed:
    return Headed(_coin(), lambda u: np.asarray(softmax(u, axis=1)), channels=2)


def _threshold(x: Array, t: float) -> Array:
    return np.where(x @ np.array([[1.0, -0.4], [0.5, 1.0]]) > 0.1, 1.0, -0.5)


_HEAT = "the graph's Laplacian"

ENTRIES: tuple[Entry, ...] = (
    Entry("resnet", "ResNet", "residual branch / dt", "0", lambda: residual_of(small_resnet())),
    Entry(
        "noise-injection",
        "Gaussian noise injection",
        "residual branch / dt",
        "noise^2 / 2, isotropic",
        lambda: noise_injection(field, 2, NOISE),
    ),
    Entry(
        "dropout",
        "dropout of hidden units",
        "residual branch / dt",
        "(1 - p) / (2 p) diag(v_i^2)",
        lambda: dropout(field, 2, KEEP),
    ),
    Entry(
        "shake-shake",
        "shake-shake",
        "(v1 + v2) / 2",
        "w w^T / 24, w = v1 - v2",
        lambda: shake_shake(field, second_field, 2),
    ),
    Entry(
        "stochastic-depth",
        "stochastic depth",
        "p x residual branch / dt",
        "p (1 - p) / 2 v v^T",
        lambda: stochastic_depth(field, 2, KEEP),
    ),
    Entry(
        "randomised-smoothing",
        "randomised smoothing of a ResNet",
        "residual branch / dt up to T, then 0",
        "0 up to T, then noise^2 / 2",
        lambda: _smoothed_resnet(NOISE**2),
        known=_smoothed_coefficients(NOISE**2),
    ),
    Entry("pde-gcn", "PDE-GCN, linear", "0", _HEAT, lambda: _pde_gcn(lambda g: g), points=_places),
    Entry("grand", "GRAND (linear, no source)", "0", "I - attention", _grand, points=_places),
    Entry("dgc", "DGC", "0", "I - D^-1/2 (A + I) D^-1/2", _dgc, points=_places),
    Entry(
        "cgnn",
        "CGNN, its input a parameter",
        "diag(a) (S - I) x / 2 + e",
        "0",
        lambda: residual(cgnn_field, 3),
    ),
    Entry("gcde", "GCDE", "two graph convolutions", "0", lambda: residual(gcde_field, 3)),
    Entry("coin", "COIN's diffusion layers", "0", "strength x " + _HEAT, _coin, points=_places),
    Entry(
        "coin-resolvent",
        "COIN-resolvent's implicit step",
        "0",
        "I - D^-1/2 (A + I) D^-1/2",
        _resolvent,
        points=_places,
    ),
    Entry(
        "graph-convection",
        "convection along edges, upwind",
        "flow along the edges",
        "half the flow times the edge's length, by the upwind step",
        _graph_convection,
        points=_places,
    ),
    Entry(
        "learned-symmetric",
        "learned weights, symmetric",
        "0",
        "the Laplacian of w_ij sigmoid(s_ij)",
        lambda: _learned("symmetric"),
        points=_places,
    ),
    Entry(
        "learned-stochastic",
        "learned weights, row-stochastic",
        "0",
        "I - softmax of w_ij exp(s_ij)",
        lambda: _learned("stochastic"),
        points=_places,
    ),
    Entry(
        "anisotropic-edges",
        "anisotropic diffusion, per edge",
        "0",
        "the Laplacian of a_ij w_ij",
        _anisotropic,
        points=_places,
    ),
    Entry(
        "anisotropic-classes",
        "anisotropic diffusion, per class",
        "0",
        "s_k x " + _HEAT + " for class k",
        _per_class,
        points=_places,
    ),
    Entry(
        "coin-equation",
        "COIN's equation, both halves",
        "residual branch / dt up to T - 1, then 0",
        "0 up to T - 1, then sigma^2 I",
        lambda: _smoothed_resnet(0.3),
        known=_smoothed_coefficients(0.3),
    ),
    Entry("euler-past-limit", "diffusion layers of twice the positivity limit", "0", _HEAT, _past_the_limit, True),
    Entry(
        "learned-signed",
        "learned weights, signed",
        "none",
        "the Laplacian of w_ij tanh(s_ij), with a reaction",
        lambda: _learned("signed"),
        True,
        points=_places,
    ),
    Entry(
        "signed-hops",
        "COIN-reaction's hops, signed per channel",
        "none",
        "I - sum_k theta_k (D^-1/2 (A + I) D^-1/2)^k, with a reaction",
        _signed_hops,
        True,
        points=_places,
    ),
    Entry(
        "blocks-lie",
        "residual blocks on u between diffusions, Lie",
        "none",
        _HEAT + ", with a reaction: not linear",
        lambda: _interleaved(Steps(_block), strang=False),
        True,
        points=_places,
    ),
    Entry(
        "blocks-strang",
        "residual blocks on u between diffusions, Strang",
        "none",
        _HEAT + ", with a reaction: not linear",
        lambda: _interleaved(Steps(_block, order=2), strang=True),
        True,
        points=_places,
    ),
    Entry(
        "reaction",
        "diffusion and a sharpening reaction, Strang",
        "none",
        _HEAT + ", with a reaction: not linear",
        lambda: _interleaved(Reaction(1.0), strang=True),
        True,
        points=_places,
    ),
    Entry("softmax-after-flow", "a softmax after the diffusion", "none", "none: not linear", _softmax_after, True),
    Entry("pde-gcn-tanh", "PDE-GCN with tanh", "none", "none: not linear", lambda: _pde_gcn(np.tanh), True),
    Entry(
        "cgnn-with-memory",
        "CGNN, fed by where it started",
        "diag(a) (S - I) x / 2 + x(0)",
        "0",
        lambda: FunctionOperator.of(_cgnn_with_memory, 3, step=0.125),
        True,
    ),
    Entry(
        "jumps",
        "inputs that jump at random",
        "none",
        "none: not local",
        lambda: FunctionOperator.of(_jumps, 2),
        True,
    ),
    Entry(
        "threshold-units",
        "ResNet with threshold units",
        "residual branch / dt, discontinuous",
        "0",
        lambda: residual(_threshold, 2),
        True,
    ),
    Entry(
        "plain-network",
        "layers without a shortcut",
        "none",
        "none: no limit",
        lambda: FunctionOperator.of(_plain_layers, 2, step=0.25),
        True,
    ),
)
#: Every example by its name.
ZOO: dict[str, Entry] = {entry.name: entry for entry in ENTRIES}


def get_entry(name: str) -> Entry:
    """The example of this name."""
    if name not in ZOO:
        raise InvalidInputError(
            f"there is no example {name!r}{did_you_mean(name, ZOO)}; the examples are {', '.join(ZOO)}"
        )
    return ZOO[name]


def zoo_tables(names: Iterable[str] = ()) -> list[AxiomTable]:
    """The axiom tables of the named examples, or of all."""
    chosen = [get_entry(name) for name in names] or list(ENTRIES)
    return [entry.check() for entry in chosen]


def zoo_markdown(tables: Sequence[AxiomTable] | None = None) -> str:
    """What each example's coefficients are, and then the axioms with their measured figures."""
    lines = ["| `NAME` | example | v | sigma |", "| --- | --- | --- | --- |"]
    lines += [f"| {entry.name} | {entry.title} | {entry.v} | {entry.sigma} |" for entry in ENTRIES]
    return "\n".join(lines) + "\n\n" + tables_markdown(zoo_tables() if tables is None else tables)
