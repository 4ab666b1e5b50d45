"""The options of ``condiff reproduce``, by the application that they are for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Targets = Annotated[
    list[str],
    typer.Argument(
        metavar="TARGET...",
        help="cora, citeseer, pubmed; GRAPH.npz, or a folder with edges.csv and nodes.csv; or covid; or prostate; or "
        "fewshot.",
    ),
]
Method = Annotated[str, typer.Option(metavar="A,B|all", help="Methods, with commas between; 'all' for every one.")]
Splits = Annotated[
    int | None,
    typer.Option(
        min=1, help="Random splits of a graph: 10 by default, 100 in the paper. For covid, masks: 10 in the paper."
    ),
]
Inits = Annotated[
    int | None,
    typer.Option(
        min=1, help="Random initialisations of each: 2 by default, 20 in the paper. For covid, 10 as in the paper."
    ),
]
TrainPerClass = Annotated[int | None, typer.Option(min=1, help="Training nodes of each class; 20 by default.")]
ValidationPerClass = Annotated[int | None, typer.Option(min=1, help="Validation nodes of each class; 30 by default.")]
Missing = Annotated[
    float | None, typer.Option(min=0.0, max=0.97, help="covid: the part that is hidden; 0.9 by default.")
]
Causal = Annotated[bool, typer.Option("--causal", help="covid: standardise by the training days alone.")]
Features = Annotated[
    Path | None, typer.Option(metavar="FILE", help="fewshot: features that condiff backbone embed wrote (.npz).")
]
Dataset = Annotated[
    str | None, typer.Option(metavar="NAME", help="fewshot: cub, omniglot or a folder of images, in place of features.")
]
Backbone = Annotated[
    str | None,
    typer.Option(
        help="fewshot: what embeds --dataset: efficientnet_lite0, or a folder of condiff backbone train. With "
        "--episodic: conv4, or a folder of a trained one to begin from."
    ),
]
Episodic = Annotated[
    bool,
    typer.Option(
        "--episodic",
        help="fewshot: train the methods on tasks of the base classes of --dataset, as their authors do, instead of "
        "giving them fixed features.",
    ),
]
EpisodeCount = Annotated[
    int | None, typer.Option("--episodes", min=1, help="fewshot: tasks that --episodic trains on; 10,000 by default.")
]
Shot = Annotated[int | None, typer.Option(min=1, help="fewshot: labelled images a class; 1 by default.")]
Ways = Annotated[int | None, typer.Option(min=2, help="fewshot: classes of a task; 5 by default.")]
Queries = Annotated[int | None, typer.Option(min=1, help="fewshot: queries a class, on average; 15 by default.")]
Tasks = Annotated[int | None, typer.Option(min=1, help="fewshot: tasks; 10,000 by default, as in the paper.")]
Unbalanced = Annotated[
    bool, typer.Option("--unbalanced", help="fewshot: draw the classes' shares of the queries (Dirichlet, 2).")
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="[METHOD.]NAME=VALUE",
        help="Change a method's setting, such as COIN.layers=40 or training.weight_decay=0.01; repeatable.",
    ),
]
ImportSplits = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Take the splits, or tasks, of this file instead of drawing them.")
]
ExportSplits = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the splits or tasks, all numbers of them, as JSON.")
]
Jobs = Annotated[
    int | None,
    typer.Option(min=1, help="Processes, one torch thread each; $CONDIFF_JOBS or one a core by default."),
]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Run on the workers of this Dask scheduler, such as tcp://10.0.0.1:8786."),
]
Out = Annotated[
    Path, typer.Option(metavar="FOLDER", help="Store of runs, tables and pictures; what is there is kept and used.")
]
Pictures = Annotated[bool, typer.Option(help="Draw the figures.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")]
