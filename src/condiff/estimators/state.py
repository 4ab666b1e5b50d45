"""What the state of a saved model must look like, part by part: checked when it is saved and when it is loaded.

A file may hold anything, and compiled loops read wherever indices point. So everything is settled before a model is
made of it: kinds of values, shapes that agree with each other, indices within what they point into.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from condiff.estimators.checks import (
    Check,
    Mismatch,
    Sizes,
    anything,
    array,
    below,
    each,
    flag,
    matrix,
    maybe,
    names,
    nothing,
    number,
    one_of,
    record,
    shown,
    text,
    whole,
)

#: More layers than this take minutes to answer for a few rows, and a file that asks for a billion would never end.
#: Solvers without layers take as long for this reach, the diffusion's time times the largest degree.
MOST_LAYERS = MOST_REACH = 100_000
_MOST_NETWORKS, _MOST_LABELS, _MOST_NEIGHBOURS, _DEEPEST = 10_000, 10_000, 1000, 4


def check_state(kind: str, state: Any) -> None:
    """Raise :class:`Mismatch` where the state is not that of a fitted estimator of this kind."""
    if kind not in _KINDS:
        raise Mismatch(f"a {kind!r} is not known")
    _KINDS[kind](state, "", {})


def check_reach(layers: int, strength: float, weights: Any) -> None:
    """Raise where a diffusion over a graph would take as good as forever."""
    degree = float(np.asarray(weights.sum(axis=1)).max(initial=0.0))
    if layers > MOST_LAYERS or not layers * strength * degree <= MOST_REACH:
        raise Mismatch(f"{shown(layers)} layers of the strength {strength:.3g} are more than can be waited for")


def _forest(width: int, outputs: int) -> Check:
    """Trees that ask for columns which there are; that every way down ends is checked where they are made."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        local = {"columns": width, "outputs": outputs}
        nodes = "tree nodes"
        record(
            {
                "feature": array("i4", nodes, low=-1, high="columns"),
                "roots": array("i4", "trees", low=0, high=nodes),
                "threshold": array("f8", nodes),
                "left": array("i4", nodes, low=0, high=nodes),
                "right": array("i4", nodes, low=0, high=nodes),
                "value": array("f8", nodes, "outputs"),
            }
        )(value, name, local)
        if not local["trees"]:
            raise Mismatch(f"{name} has no trees")

    return check


def _base(depth: int = 0) -> Check:
    """Any base that can be saved, by its kind."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        kind = value.get("kind") if isinstance(value, dict) else None
        if kind == "Trees":
            directions = value.get("directions")
            array("f8", "seen", "directions of trees")(directions, f"{name}.directions", sizes)
            width = sizes["seen"] + sizes["directions of trees"]
            parts: dict[str, Check] = {"directions": anything, "forest": _forest(width, sizes["outputs"])}
        elif kind == "Linear":
            parts = {
                "weight": array("f8", "seen", "outputs"),
                "intercept": array("f8", "outputs", high=math.inf, finite=False),
                "classifies": flag,
            }
        elif kind == "GaussianProcess":
            parts = {
                "points": array("f8", "points of the process", "seen"),
                "centre": array("f8", "seen"),
                "rates": array("f8", "length scales", low=0),
                "pulls": array("f8", "length scales", "points of the process", "outputs"),
                "weight": array("f8", "seen", "outputs"),
                "offset": array("f8", "outputs"),
                "classifies": flag,
            }
        elif kind == "Blend" and depth < _DEEPEST:
            parts = {
                "members": each(_base(depth + 1), 100, 1),
                "weights": each(number(1e-12, 1e12), 100, 1),
                "tilt": maybe(array("f8", "outputs", low=0)),
            }
        else:
            raise Mismatch(f"{name} is a base {shown(kind)}, which this version of condiff does not know")
        record({"kind": anything, **parts})(value, name, sizes)
        if kind == "Blend" and len(value["members"]) != len(value["weights"]):
            raise Mismatch(f"{name} has {len(value['members'])} members and {len(value['weights'])} weights")

    return check


def _averaged(value: Any, name: str, sizes: Sizes) -> None:
    """A linear map of columns, or of edges, that are averaged over neighbours."""
    columns = "nodes" if isinstance(value, dict) and value.get("of_edges") is True else "columns"
    record(
        {
            "weight": array("f8", columns, "outputs"),
            "bias": array("f8", "outputs"),
            "centre": array("f8", columns),
            "unit": number(1e-300),
            "hops": whole(0, 100),
            "of_edges": flag,
            "share": number(0, 1),
        },
        {"spread": maybe(array("f8", columns, low=1e-300))},
    )(value, name, sizes)


def _domain(value: Any, name: str, sizes: Sizes) -> None:
    """Nodes, features and graph; sets the sizes that bases depend on."""
    from condiff.estimators.domain import MOST_COLUMNS

    points = value.get("points") if isinstance(value, dict) else None
    is_sparse = sp.issparse(points)
    (matrix("nodes", "columns") if is_sparse else array("f4 f8", "nodes", "columns"))(points, f"{name}.points", sizes)
    features = value.get("features")
    components = features.get("components") if isinstance(features, dict) else None
    maybe(array("f8", "columns", "inputs"))(components, f"{name}.features.components", sizes)
    sizes.setdefault("inputs", sizes["columns"])
    by_column = maybe(array("f8", "columns")) if is_sparse else array("f8", "columns")
    of_edges = value.get("of_edges")
    edge_components = of_edges.get("components") if isinstance(of_edges, dict) else None
    record(
        {
            "points": anything,
            "features": record(
                {
                    "mean": by_column,
                    "scale": by_column if is_sparse else array("f8", "columns", low=1e-300),
                    "components": anything,
                    "offset": array("f8", "inputs"),
                    "unit": number(1e-300),
                }
            ),
            "weights": matrix("nodes", "nodes", low=0),
            "bandwidth": maybe(array("f8", "nodes", low=0)),
            "degree": maybe(array("f8", "nodes", low=0)),
            "metric": one_of("euclidean", "cosine"),
            "recall": number(0, 1),
            "cut": whole(0),
            "rank": whole(0),
            "links": anything,
        },
        {
            "of_edges": record(
                {
                    "mean": nothing,
                    "scale": nothing,
                    "components": maybe(array("f8", "nodes", "inputs of edges")),
                    "offset": array("f8", "nodes" if edge_components is None else "inputs of edges"),
                    "unit": number(1e-300),
                }
            )
        },
    )(value, name, sizes)
    if sizes["nodes"] < 1 or sizes["columns"] < 1:
        raise Mismatch(f"{name}.points is empty")
    if is_sparse and (features["mean"] is not None or features["scale"] is not None):
        raise Mismatch(f"{name}.features centres sparse points")
    fits = value["degree"] is not None and 2 <= value["rank"] <= value["cut"] <= sizes["nodes"]
    if value["bandwidth"] is not None and not fits:
        raise Mismatch(f"{name}.cut and rank are {shown(value['cut'])} and {shown(value['rank'])}")
    narrow = not is_sparse and sizes["columns"] <= MOST_COLUMNS
    sizes["seen"] = sizes["columns" if narrow else "inputs"]
    if of_edges is not None:
        if value["degree"] is None or value["bandwidth"] is not None:
            raise Mismatch(f"{name}.of_edges goes with a graph that was given")
        sizes["inputs"] = len(of_edges["offset"])


def _links(value: Any, name: str, sizes: Sizes) -> None:
    """What was mixed into the graph."""
    kinds = {"leaves": _leaves, "near": _alike, "answers": _alike}
    if (
        not isinstance(value, dict)
        or not isinstance(value.get("mix"), dict)
        or not isinstance(value.get("parts"), dict)
    ):
        raise Mismatch(f"{name} is {shown(value)}, not a mix and its parts")
    mix, parts = value["mix"], value["parts"]
    if not mix or set(mix) - set(parts) - {"own"} or set(parts) - set(mix) or set(parts) - set(kinds):
        raise Mismatch(f"{name} mixes {shown(list(mix))} from {shown(list(parts))}")
    record({part: number(0, 1) for part in mix})(mix, f"{name}.mix", sizes)
    record({part: kinds[part] for part in parts})(parts, f"{name}.parts", sizes)


def _leaves(value: Any, name: str, sizes: Sizes) -> None:
    """The trees that join new points to a graph of shared leaves."""
    record(
        {
            "trees": _base(_DEEPEST),
            "cells": _forest(sizes["seen"], 1),
            "leaves": array("i8", "nodes", "pairs of trees"),
            "degree": array("f8", "nodes", low=0),
            "n_neighbors": whole(1, max(sizes["nodes"], _MOST_NEIGHBOURS)),
        }
    )(value, name, sizes)
    roots = [len(value["cells"]["roots"]), len(value["trees"].get("forest", {"roots": []})["roots"])]
    if value["trees"]["kind"] != "Trees" or not roots[0] == sizes["pairs of trees"] <= roots[1]:
        raise Mismatch(f"{name} pairs {roots[1]} trees with {roots[0]}")


def _alike(value: Any, name: str, sizes: Sizes) -> None:
    """What joins new points to those of which the same is said."""
    based = isinstance(value, dict) and value.get("base") is not None
    record(
        {
            "base": maybe(_base()),
            "points": array("f8", "nodes", "outputs" if based else "seen"),
            "bandwidth": array("f8", "nodes", low=0),
            "degree": array("f8", "nodes", low=0),
            "n_neighbors": whole(1, sizes["nodes"]),
            "bandwidth_rank": whole(1, sizes["nodes"]),
        }
    )(value, name, sizes)
    if value["bandwidth_rank"] > value["n_neighbors"]:
        raise Mismatch(f"{name}.bandwidth_rank is {value['bandwidth_rank']}, for {value['n_neighbors']} neighbours")


_CANDIDATE = record(
    {
        "graph": one_of("none", "near", "given", "leaves", "answers", "mixed"),
        "layers": whole(0),
        "gain": number(finite=False),
        "error": number(finite=False),
    }
)


def _coin(classifies: bool) -> Check:
    """A fitted classifier or regressor."""
    targets, labels = (
        array("i8", each, low=0, high="outputs") if classifies else array("f8", each, "outputs")
        for each in ("items", "labelled rows")
    )
    answers = record(
        {
            "base": array("f8", "nodes", "outputs"),
            "output": array("f8", "nodes", "outputs"),
            "node_of_row": array("i8", "rows", low=-1, high="nodes"),
            "reached": array("b1", "nodes"),
            "nodes": array("i8", "items", low=0, high="nodes"),
            "targets": targets,
            "weights": array("f8", "items", low=0),
            "held_out": array("i8", "held-out items", low=0, high="items"),
            "answers": array("f8", "held-out items", "outputs"),
        },
        {
            "fold_outputs": maybe(array("f4", "folds", "nodes", "outputs")),
            "fold": maybe(array("i8", "held-out items", low=0)),
            "label_nodes": maybe(array("i8", "labelled rows", low=0, high="nodes")),
            "label_targets": maybe(labels),
        },
    )
    own: dict[str, Check] = {
        "classes_": _classes,
        "temperature_": number(1e-6, 1e6),
        "transduction_": _transduction,
    }
    if not classifies:
        own = {
            "_single": flag,
            "_logarithmic": array("b1", "outputs"),
            "_offset": array("f8", "outputs"),
            "_spread": array("f8", "outputs", low=1e-300),
            "_low": array("f8", "outputs"),
            "_high": array("f8", "outputs"),
            "transduction_": _transduction,
        }
    network = record(
        {
            "readout.weight": array("f8", "outputs", "units"),
            "readout.bias": array("f8", "outputs"),
            "blocks.0.weight": array("f8", "units", "inputs"),
            "blocks.0.bias": array("f8", "units"),
        }
    )
    slope = number() if classifies else array("f8", "outputs")
    parts = record(
        {
            "_domain": _domain,
            "record_": answers,
            "models_": each(network, _MOST_NETWORKS),
            "base_": maybe(_base()),
            "readout_": maybe(record({"slope": slope, "bias": array("f8", "outputs")})),
            "choice_": record({"base": text, "why": text, "chosen": _CANDIDATE, "candidates": each(_CANDIDATE, 1000)}),
            "layers_": whole(0, MOST_LAYERS),
            "strength_": number(1e-300, 1e12),
            "diffusion_time_": number(0),
            "cv_score_": number(finite=False),
            "unlabelled_component_": array("b1", "rows"),
            "_graph_is_given": flag,
            "n_features_in_": whole(1),
            "encoder_": anything,
            **own,
        },
        {
            "feature_names_in_": names("features in"),
            "averaged_": each(_averaged, _MOST_NETWORKS),
            "label_directions_": maybe(array("f8", "outputs", "columns")),
            "label_spread_": maybe(array("f8", "nodes", "outputs")),
            **(
                {
                    "prices_": maybe(array("f8", "outputs")),
                    "doubted_": array("b1", "rows"),
                    "shrinkage_": number(0, 1),
                }
                if classifies
                else {}
            ),
        },
    )

    def check(value: Any, name: str, sizes: Sizes) -> None:
        parts(value, name, sizes)
        each(_links, 2)(value["_domain"]["links"], "_domain.links", sizes)
        if sizes["outputs"] < (2 if classifies else 1) or not sizes["items"] or not sizes["rows"]:
            raise Mismatch("record_ has no answers")
        check_reach(value["layers_"], value["strength_"], value["_domain"]["weights"])
        networks, based, read = (value[part] for part in ("models_", "base_", "readout_"))
        averaged = value.get("averaged_", [])
        if (based is None) != (read is None) or [based is not None, bool(networks), bool(averaged)].count(True) != 1:
            raise Mismatch("base_, readout_, models_ and averaged_ do not go together")
        if averaged and (value["_domain"]["degree"] is None or value["_domain"]["bandwidth"] is not None):
            raise Mismatch("averaged_ goes with a graph that was given")
        if networks and sizes["units"] < sizes["inputs"]:
            raise Mismatch(f"models_ have {sizes['units']} units for {sizes['inputs']} inputs")
        if value["encoder_"] is None and value["n_features_in_"] != sizes["columns"]:
            raise Mismatch(f"n_features_in_ is {value['n_features_in_']}, but there are {sizes['columns']} columns")
        if sizes.get("features in", value["n_features_in_"]) != value["n_features_in_"]:
            raise Mismatch(f"feature_names_in_ has {sizes['features in']} names for {value['n_features_in_']} columns")
        held = value["record_"]
        folds = held.get("fold_outputs")
        if folds is not None and (held.get("fold") is None or held["fold"].max(initial=0) >= len(folds)):
            raise Mismatch("record_.fold does not fit record_.fold_outputs")
        if (held.get("label_nodes") is None) != (held.get("label_targets") is None):
            raise Mismatch("record_.label_nodes and record_.label_targets do not go together")

    return check


def _classes(value: Any, name: str, sizes: Sizes) -> None:
    if isinstance(value, np.ndarray) and value.dtype.kind in "OU":
        names("outputs")(value, name, sizes)
    else:
        array("b1 i1 i2 i4 i8 u1 u2 u4 u8 f4 f8", "outputs")(value, name, sizes)
    if len(set(value.tolist())) != len(value):
        raise Mismatch(f"{name} names a class twice")


def _transduction(value: Any, name: str, sizes: Sizes) -> None:
    if not isinstance(value, np.ndarray) or value.shape[:1] != (sizes["rows"],) or value.ndim > 2:
        raise Mismatch(f"{name} is {shown(value)}, not an answer for each of {sizes['rows']} rows")


def _forecaster(value: Any, name: str, sizes: Sizes) -> None:
    network = record(
        {
            "shortcut.weight": array("f4", "days to come", "days back"),
            "shortcut.bias": array("f4", "days to come"),
            "inner.weight": array("f4", "units", "days back"),
            "inner.bias": array("f4", "units"),
            "outer.weight": array("f4", "days to come", "units"),
            "outer.bias": array("f4", "days to come"),
        }
    )
    regions, positive = array("f8", "regions"), array("f8", "regions", low=0)
    # A slope that does not fade would have no variance to begin with.
    trend = {"centre": regions, "scale": positive, "level": positive, "slope": positive, "noise": positive}
    shares = (
        ("persistence", array("f8", "regions", low=0, high=1)),
        ("damping", array("f8", "regions", low=0, high=0.999)),
    )
    seasons = each(whole(2, 10**7), 8)
    structure = record(
        {
            "logs": flag,
            "trend": record({**trend, **dict(shares)}),
            "periods": seasons,
            "coefficients": array("f8", "effects", "regions"),
        }
    )
    correlation = {"time": number(0, 1e6), "share": number(0, 1), "noise_share": number(0, 1), "pace": number(0, 1e6)}
    past = array("f8", "days", "regions", finite=False)
    coming = array("f8", "days to come", "regions")
    tested = array("f8", "origins", "days to come", "regions", finite=False)
    record(
        {
            "values": past,
            "forecast": coming,
            "deviation": array("f8", "days to come", "regions", low=0),
            "graphs": maybe(each(matrix("regions", "regions", low=0), 10**6, 1)),
            "graph": matrix("regions", "regions", low=0),
            "covariates": maybe(array("f8", "days and those to come", "regions", "covariates")),
            "season": seasons,
            "lowest": number(finite=False),
            "shares": _named(number(0, 1)),
            "blind_shares": _named(number(0, 1)),
            "scores": tested,
            "measure": text,
            "names": each(text, 10**7),
            "times": each(text, 10**7),
            "scale": positive,
            "backtest": record(
                {"origins": each(whole(0, "days"), 10**6), "truth": tested, "forecasts": _named(tested)}
            ),
            "parts": record(
                {
                    "structures": each(structure, 2, 1),
                    "correlations": each(record(correlation), 2),
                    "regression": maybe(
                        record(
                            {
                                "coefficients": array("f8", "days to come", "columns"),
                                "largest": array("f8", "days to come", low=0),
                            }
                        )
                    ),
                    "network": maybe(
                        record(
                            {
                                "mean": regions,
                                "scale": positive,
                                "losses": array("f8", "networks", finite=False),
                                "models": each(network, _MOST_NETWORKS, 1),
                            }
                        )
                    ),
                }
            ),
        }
    )(value, name, sizes)
    known = value["values"]
    if not known.size or np.isinf(known).any() or np.isnan(known).all():
        raise Mismatch("values are empty, or some are infinite")
    if value["graphs"] is not None and len(value["graphs"]) not in (1, len(known)):
        raise Mismatch(f"there are {len(value['graphs'])} graphs for {len(known)} days")
    if value["covariates"] is not None and len(value["covariates"]) != len(known) + sizes["days to come"]:
        raise Mismatch(f"covariates are of {len(value['covariates'])} days, not {len(known) + sizes['days to come']}")
    for part, size in (("names", sizes["regions"]), ("times", len(known) + sizes["days to come"])):
        if len(value[part]) != size:
            raise Mismatch(f"there are {len(value[part])} {part} for {size}")
    if len(value["backtest"]["origins"]) != sizes["origins"]:
        raise Mismatch(f"there are {len(value['backtest']['origins'])} origins for {sizes['origins']} scores")


def _named(inner: Check) -> Check:
    """Values by the names of the parts of a forecast."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        if not isinstance(value, dict) or len(value) > 100:
            raise Mismatch(f"{name} is {shown(value)}, not named parts")
        for part, item in value.items():
            text(part, name, sizes)
            inner(item, below(name, part), sizes)

    return check


def _multi_label(value: Any, name: str, sizes: Sizes) -> None:
    record(
        {
            "classes_": _classes,
            "heads_": each(record({"params": anything, "state": anything}), _MOST_LABELS, 1),
            "cv_scores_": array("f8", "outputs", finite=False),
            "transduction_": array("i8", "rows", "outputs", low=0, high=2),
        }
    )(value, name, sizes)
    if len(value["heads_"]) != sizes["outputs"]:
        raise Mismatch(f"there are {len(value['heads_'])} heads for {sizes['outputs']} labels")
    for place, head in enumerate(value["heads_"]):
        own: Sizes = {"rows": sizes["rows"]}  # but for the rows, every head has its own
        _KINDS["COINClassifier"](head["state"], f"heads_[{place}]", own)
        if not isinstance(head["params"], dict) or head["state"]["classes_"].tolist() != [0, 1]:
            raise Mismatch(f"heads_[{place}] does not answer yes or no")


_KINDS: dict[str, Check] = {
    "COINClassifier": _coin(True),
    "COINMultiLabelClassifier": _multi_label,
    "COINRegressor": _coin(False),
    "PanelForecaster": _forecaster,
}
