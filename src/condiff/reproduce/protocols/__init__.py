"""The paper's applications and our own comparison, one protocol per file: a new one is a file here and a line below."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from condiff.errors import InvalidInputError, did_you_mean
from condiff.reproduce.protocol import Protocol

#: The name of each: its module and its class. The order is that of the command's help.
PROTOCOLS = {
    "node": "condiff.reproduce.protocols.node:Node",
    "covid": "condiff.reproduce.protocols.covid:Covid",
    "prostate": "condiff.reproduce.protocols.prostate:Prostate",
    "fewshot": "condiff.reproduce.protocols.fewshot:FewShot",
    "tables": "condiff.reproduce.protocols.tables:Tables",
    "text": "condiff.reproduce.protocols.text:Text",
    "low-labels": "condiff.reproduce.protocols.low_labels:LowLabels",
    "coverage": "condiff.reproduce.protocols.coverage:Coverage",
    "labelling": "condiff.reproduce.protocols.labelling:Labelling",
    "forecast": "condiff.reproduce.protocols.forecast:Forecast",
    "beyond": "condiff.reproduce.protocols.beyond:Beyond",
}
#: What each is about: the help lists them all before any is imported.
ABOUT = {
    "node": "Classify the nodes of citation graphs, or of a graph of yours, from a few labels per class.",
    "covid": "Forecast COVID-19 cases in 129 regions of England, most of the entries being hidden.",
    "prostate": "Predict which prostate cancers have spread, from the gene alterations of twenty labelled patients.",
    "fewshot": "Classify images of new classes from one or a few labelled ones per class, over thousands of tasks.",
    "tables": "Compare condiff with what practitioners use, over many ordinary tables with few labels.",
    "text": "Compare condiff with what practitioners use, on texts with few labels.",
    "low-labels": "Compare COIN with methods of graph learning on MNIST, with one to five labels per class.",
    "coverage": "Count how often prediction sets and intervals hold the truth, over many draws of the labels.",
    "labelling": "Compare strategies of asking for labels, and of finding wrong ones.",
    "forecast": "Compare forecasts of panels with holes, and filled holes, with what forecasters use.",
    "beyond": "Compare variants of COIN and newer methods on citation graphs and on graphs whose neighbours disagree.",
}
#: Those that are not the paper's, and so commands of ``condiff bench`` rather than of ``condiff reproduce``.
BENCHES = ("tables", "text", "low-labels", "coverage", "labelling", "forecast", "beyond")


@cache
def protocol(name: str) -> Protocol:
    """A protocol by its name."""
    if name not in PROTOCOLS:
        raise InvalidInputError(
            f"unknown protocol {name!r}{did_you_mean(name, PROTOCOLS)}; known: {', '.join(PROTOCOLS)}"
        )
    module, _, attribute = PROTOCOLS[name].partition(":")
    found: Protocol = getattr(import_module(module), attribute)()
    return found
