"""Put the committed results into README and docs: python docs/update_tables.py, from the project's root."""

import json
import math
import shutil
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

from scipy.stats import t as student

from condiff.distributed.table_cost import TableWork, forecast
from condiff.encoders.examples import columns_markdown
from condiff.files import write_text
from condiff.reproduce.baselines import beyond as beyond_methods
from condiff.reproduce.baselines import fewshot as fewshot_methods
from condiff.reproduce.baselines import node as node_methods
from condiff.reproduce.baselines import tabular as tabular_methods
from condiff.reproduce.baselines import temporal as temporal_methods
from condiff.reproduce.baselines.beyond.mixture import MixtureCOIN
from condiff.reproduce.baselines.fewshot import episodic as episodic_methods
from condiff.reproduce.bench.scale import exponents
from condiff.reproduce.pairs import Pair, paired
from condiff.reproduce.protocols.beyond import ABLATED, DEFAULT, kind
from condiff.reproduce.protocols.forecast import tables as forecast_tables
from condiff.reproduce.protocols.labelling import asking_markdown, doubting_markdown
from condiff.reproduce.protocols.low_labels import means_markdown, pairs_markdown
from condiff.reproduce.published import datasets, methods, published
from condiff.reproduce.rows import Row, comparable, describe
from condiff.reproduce.runs import Condition
from condiff.reproduce.store import Store
from condiff.reproduce.tables import demo_markdown, markdown, put_table
from condiff.theory.verdicts import tables_markdown as axioms_markdown
from condiff.theory.zoo import zoo_markdown, zoo_tables

#: The examples of the theory that are on the page beyond the paper.
BEYOND = (
    "coin-resolvent",
    "learned-symmetric",
    "learned-stochastic",
    "learned-signed",
    "signed-hops",
    "graph-convection",
    "anisotropic-edges",
    "anisotropic-classes",
    "blocks-lie",
    "blocks-strang",
    "reaction",
)
#: Graphs with a rare class, and the methods that are run on graphs whose neighbours disagree.
RARE = ("minesweeper", "tolokers")
METHODS_THERE = ("MLP", "GCN", "GRAND", "GREAD", "CDE", "GPRGNN", "FAGCN", "COIN-resolvent")


def update(path: str, tables: dict[str, str]) -> None:
    """Put tables into a document, each between its two comments."""
    document = Path(path).read_text()
    for name, table in tables.items():
        document = put_table(document, name, table)
    write_text(Path(path), document)


def methods_markdown(package: ModuleType) -> str:
    """What each method is, by the first line of its module."""
    lines = ["| `--method` | what it is |", "| --- | --- |"]
    for name, (module, _) in package.METHODS.items():
        found = import_module(f"{package.__name__}.{module}").__doc__ or ""
        lines.append(f"| {name} | {found.splitlines()[0].rstrip('.')} |")
    return "\n".join(lines)


def speed_markdown(rows: list[dict]) -> str:
    """The bench's rows: the time of one fit in the paper's way and by the engine."""
    lines = [
        "| fit | paper's way | engine | ratio | largest difference | peak memory | published GPU |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        gpu = row["published_gpu_seconds"]
        lines.append(
            f"| {row['task']} | {duration(row['reference_seconds'])} | {duration(row['engine_seconds'])} "
            f"| {row['ratio']:.{0 if row['ratio'] >= 10 else 1}f} | {row['max_difference']:.0e} "
            f"| {row['peak_memory_mb']:.0f} MB | {'-' if gpu is None else duration(gpu)} |"
        )
    made = rows[0]["made"]
    lines += ["", f"One fit on {made['machine']} ({made['date']}), medians of at least three turns."]
    return "\n".join(lines)


def scale_markdown(rows: list[dict]) -> str:
    """Time, memory and accuracy of every method at every size, and the exponents of time."""
    lines = [
        "| method | points | time | peak memory | accuracy | best possible |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        if row["method"] == "products":
            continue
        start = f"| {row['method']} | {row['points']:,} |"
        if row["status"] != "ok":
            lines.append(f"{start} gave up: {row['reason']} | | | |")
            continue
        shares = f"{100 * row['accuracy']:.2f} | {100 * row['best_accuracy']:.2f} |"
        lines.append(f"{start} {duration(row['seconds'])} | {row['memory_mb'] / 1024:.1f} GB | {shares}")
    slopes = ", ".join(f"{method} {slope:.2f}" for method, slope in exponents(rows).items())
    made = rows[0]["made"]
    return "\n".join(
        [*lines, "", f"Exponents of time from 62,500 points on: {slopes}. {made['machine']}, {made['date']}."]
    )


def scale_parts_markdown(rows: list[dict]) -> str:
    """Where COIN's time goes."""
    parts = ("neighbours", "graph", "fit", "predict")
    heads = ["method", "points", *parts, "recall", "new points"]
    lines = [f"| {' | '.join(heads)} |", "| --- |" + " ---: |" * (len(heads) - 1)]
    for row in rows:
        if "seconds_neighbours" in row:
            times = " | ".join(duration(row[f"seconds_{part}"]) for part in parts)
            lines.append(
                f"| {row['method']} | {row['points']:,} | {times} | {row['recall']:.3f} "
                f"| {100 * row['new_accuracy']:.2f} |"
            )
    return "\n".join(lines)


def products_markdown(rows: list[dict]) -> str:
    """The diffusion on a graph of ogbn-products' size."""
    lines = ["| nodes | stored entries | columns | layers | time | bandwidth | triad | share | peak memory |"]
    lines.append("|" + " ---: |" * 9)
    for row in rows:
        if row["method"] == "products" and row["status"] == "ok":
            speeds = f"{row['bytes_a_second'] / 1e9:.1f} GB/s | {row['triad_bytes_a_second'] / 1e9:.1f} GB/s"
            sizes = f"{row['nodes']:,} | {row['entries']:,} | {row['columns']} | {row['layers']}"
            lines.append(
                f"| {sizes} | {duration(row['seconds'])} | {speeds} | {100 * row['share_of_triad']:.0f} % "
                f"| {row['memory_mb'] / 1024:.1f} GB |"
            )
    return "\n".join(lines)


def layers_markdown(rows: list[dict]) -> str:
    """One layer by torch's operations and by the compiled loops, in three orders of the nodes."""
    lines = ["| columns | by | order of the nodes | a layer | ratio | to order | layers to win back |"]
    lines.append("| ---: | --- | --- | ---: | ---: | ---: | ---: |")
    for row in rows:
        ordering = duration(row["ordering_seconds"]) if row["ordering_seconds"] else ""
        won = f"{row['layers_to_win_back']:.0f}" if row["layers_to_win_back"] else ""
        start = f"| {row['columns']} | {row['by']} | {row['order']} | {1000 * row['seconds_a_layer']:.1f} ms"
        lines.append(f"{start} | {row['ratio']:.1f} | {ordering} | {won} |")
    return "\n".join(lines)


def tables_markdown(rows: list[dict], target: str, shown: dict[tuple[int, bool], str], metrics: dict[str, str]) -> str:
    """Every method over many tables, best first: so many labels of a kind, each by some metrics."""
    found: dict[str, dict[tuple[int, bool, str], float]] = {}
    for row in rows:
        condition = row["condition"]
        if condition["target"] == target and condition["half"] == "unseen" and "where" not in condition:
            key = condition["labels"], condition["per_class"], row["metric"]
            found.setdefault(row["method"], {})[key] = row["mean"]
    columns = [(*labels, metric) for labels in shown for metric in metrics]
    complete = {method: each for method, each in found.items() if columns[0] in each}
    heads = [f"{name}, {how}" for name in shown.values() for how in metrics.values()]
    lines = [f"| method | {' | '.join(heads)} |", "| --- |" + " ---: |" * len(heads)]
    for method, each in sorted(complete.items(), key=lambda item: -item[1][columns[0]]):
        values = [each.get(column) for column in columns]
        cells = [
            "-" if value is None else _short(value, column[2]) for value, column in zip(values, columns, strict=True)
        ]
        lines.append(f"| {f'**{method}**' if method == 'COIN' else method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _short(value: float, metric: str) -> str:
    return f"{value:.{3 if metric == 'r2' else 2 if metric in ('log_loss',) or metric.startswith('rank') else 1}f}"


def sharded_markdown(fits: list[dict]) -> str:
    """Fits with several ranks beside one: what a rank sends and holds at most."""
    lines = ["| nodes | ranks | time | border share | sent by a rank | memory of a rank | largest difference |"]
    lines.append("|" + " ---: |" * 7)
    for fit in fits:
        sent, held = (max(used[name] for used in fit["used"]) for name in ("payload", "peak_memory"))
        start = f"| {fit['n_nodes']:,} | {fit['ranks']} | {duration(fit['seconds'])} | {fit['border_share']:.2f}"
        difference = f"{fit['difference_from_one_rank']:.0e}" if fit["ranks"] > 1 else ""
        lines.append(f"{start} | {sent / 1e6:.0f} MB | {held / 1e6:,.0f} MB | {difference} |")
    return "\n".join(lines)


def forecast_markdown(forecasts: list[dict]) -> str:
    """The cost model past this machine."""
    lines = ["| network | border share | sent in a layer | memory | products | base network | exchanges | epoch |"]
    lines.append("| --- |" + " ---: |" * 7)
    for each in forecasts:
        sizes = f"{each['border_share']:.2f} | {each['bytes_per_layer'] / 1e9:.2f} GB | {each['memory'] / 1e9:.1f} GB"
        times = " | ".join(duration(each[f"{part}_seconds"]) for part in ("product", "base", "exchange", "epoch"))
        lines.append(f"| {each['network']} | {sizes} | {times} |")
    return "\n".join(lines)


def cluster_markdown(rows: list[dict]) -> str:
    """Fits on workers of a cluster beside that of one process."""
    lines = [
        "| rows | base | workers | time | processor time | memory of a worker | moved | recall | accuracy | best |"
    ]
    lines.append("| ---: | --- |" + " ---: |" * 8)
    for row in rows:
        shares = f"{100 * row['accuracy']:.2f} | {100 * row['best_accuracy']:.2f} |"
        times = f"{duration(row['seconds'])} | {duration(row['processor_seconds'])}"
        start = f"| {row['rows']:,} | {row['base']}"
        if not row["workers"]:
            lines.append(f"{start} | one process | {times} | | | | {shares}")
            continue
        workers = f"{row['workers']}, {len(row['killed'])} times killed" if row["kill"] else row["workers"]
        sizes = f"{row['memory_bytes'] / 1e9:.2f} GB | {row['moved_bytes'] / 1e9:.2f} GB | {100 * row['recall']:.1f}"
        lines.append(f"{start} | {workers} | {times} | {sizes} | {shares}")
    made = rows[0]["made"]
    return "\n".join([*lines, "", f"{made['machine']}, {made['date']}."])


def billion_markdown(rows: list[dict]) -> str:
    """Stages of the largest undisturbed fit, and of a billion rows on 16 machines of 8 cores."""
    usual = (each for each in rows if each["workers"] and each["base"] == "auto" and not each["kill"])
    row = max(usual, key=lambda each: (each["rows"], -each["workers"]))
    work = TableWork(row["rows"], 32, 10, 12, row["layers"], row["visited"])
    # As many degrees of freedom are left after a time that grows as n^(2/D); the surface has six dimensions.
    large_work = replace(work, rows=1e9, layers=round(row["layers"] * (1e9 / row["rows"]) ** (2 / 6)))
    cluster = {"machines": 16, "cores": 8, "bytes_per_second": 5e8}
    found = forecast(row["stages"], work, large_work, **cluster)
    large = f"10^9 rows: {cluster['machines']} x {cluster['cores']} cores"
    lines = [f"| stage | {row['rows']:,} rows: processor | moved | 10^9 rows: processor | moved | {large} |"]
    lines.append("| --- |" + " ---: |" * 5)
    for used, each in zip(row["stages"], found, strict=True):
        measured = f"{used['seconds']:.2f} s | {used['moved'] / 1e6:.0f} MB"
        asked = f"{each.processor:,.0f} s | {each.moved / 1e9:,.0f} GB | {each.seconds:,.0f} s"
        lines.append(f"| {each.stage} | {measured} | {asked} |")
    total = f"{sum(u['seconds'] for u in row['stages']):.1f} s | {sum(u['moved'] for u in row['stages']) / 1e6:.0f} MB"
    all_of = [sum(getattr(each, name) for each in found) for name in ("processor", "moved", "seconds")]
    lines.append(f"| all | {total} | {all_of[0]:,.0f} s | {all_of[1] / 1e9:,.0f} GB | {all_of[2] / 3600:.1f} h |")
    return "\n".join(lines)


def reported_markdown(common: list[Row], public: list[Row], dataset: str) -> str:
    """What authors report of their methods beside what is measured here, under both protocols."""
    lines = ["| method | its authors report | public split | common protocol | public less common |"]
    lines.append("| --- |" + " ---: |" * 4)
    usual = {row.method: row for row in common if row.dataset == dataset}
    for row in public:
        if row.dataset == dataset and row.method in usual:
            other = usual[row.method]
            difference = row.judged.difference_text((row.mean or 0.0) - (other.mean or 0.0))
            texts = (f"{each.text()} ({each.runs} runs)" for each in (row, other))
            lines.append(f"| {row.method} | {row.published_text()} | {' | '.join(texts)} | {difference} |")
    return "\n".join(lines)


def fewshot_markdown(rows: list[Row], dataset: str, **condition: object) -> str:
    """The accuracy on the tasks of one set of images and backbone, a column for each kind of task."""
    found = by_size(rows, dataset, condition)
    return markdown(found) if found else "Not measured yet."


def fewshot_pairs_markdown(pairs: list[Pair], dataset: str, **condition: object) -> str:
    """COIN's lead over every other method on the same tasks, with 95 % intervals."""
    found = by_size(pairs, dataset, condition)
    columns = list(dict.fromkeys(pair.condition for pair in found))
    cells = {(pair.method, pair.condition): f"{pair.difference:+.2f} ± {1.96 * pair.stderr:.2f}" for pair in found}
    titles = [", ".join(describe("fewshot", dataset, column)[2:]) for column in columns]
    lines = [f"| COIN against | {' | '.join(titles)} |", "| --- |" + " ---: |" * len(columns)]
    for name in dict.fromkeys(pair.method for pair in found):
        texts = [name, *(cells.get((name, column), "-") for column in columns)]
        lines.append(f"| {' | '.join(texts)} |")
    return "\n".join(lines)


def by_size(rows: list, dataset: str, condition: dict) -> list:
    """Rows, or pairs, of one set of images and backbone, by ways, shots and balance."""
    wanted = {"episodic": False, **condition}
    found = [row for row in rows if row.dataset == dataset and wanted.items() <= row.condition.items()]
    return sorted(found, key=lambda row: [row.condition[name] or 0 for name in ("ways", "shots", "concentration")])


def fewshot_published_markdown() -> str:
    """The paper's table, and in which form a method is here."""
    columns = datasets("fewshot")
    lines = [f"| backbone | method | {' | '.join(columns)} | here |"]
    lines.append("| --- | --- |" + " ---: |" * len(columns) + " --- |")
    for each in methods("fewshot"):
        values = (published("fewshot", column, each.name, "accuracy", group=each.group) for column in columns)
        cells = " | ".join("-" if value is None else f"{value.value:.2f}" for value in values)
        forms = {"features": fewshot_methods.METHODS, "episodes": episodic_methods.METHODS}
        here = ", ".join(form for form, known in forms.items() if each.name in known)
        lines.append(f"| {each.group} | {each.name} | {cells} | {here or '-'} |")
    return "\n".join(lines)


def text_markdown(rows: list[Row], dataset: str, *, balanced: bool, metric: str) -> str:
    """Methods by their mean over budgets, a column for each budget; the best of a column is bold.

    A cell of fewer draws than COIN's says how many it has.
    """
    found = [
        row for row in rows if row.dataset == dataset and row.condition["balanced"] == balanced and row.metric == metric
    ]
    budgets = sorted({int(row.condition.number("labels")) for row in found})
    means = {(row.method, int(row.condition.number("labels"))): row.mean for row in found}
    draws = {(row.method, int(row.condition.number("labels"))): row.runs for row in found}
    best = {budget: max(mean for (_, labels), mean in means.items() if labels == budget) for budget in budgets}
    complete = list(dict.fromkeys(row.method for row in found))
    order = sorted(complete, key=lambda name: -sum(means.get((name, budget), 0.0) for budget in budgets))
    usual = max(draws.values())
    titles = " | ".join(f"{budget} per class" for budget in budgets)
    lines = [f"| method | {titles} |", "| --- |" + " ---: |" * len(budgets)]
    for name in order:
        cells = [means.get((name, budget)) for budget in budgets]
        texts = [
            "-" if cell is None else f"**{cell:.1f}**" if f"{cell:.1f}" == f"{best[budget]:.1f}" else f"{cell:.1f}"
            for cell, budget in zip(cells, budgets, strict=True)
        ]
        fewer = [draws.get((name, budget), usual) for budget in budgets]
        texts = [f"{text} ({runs})" if runs != usual else text for text, runs in zip(texts, fewer, strict=True)]
        lines.append(f"| {name} | {' | '.join(texts)} |")
    spread = max(row.std or 0.0 for row in found if row.method == "COIN")
    others = ", or as many as are in brackets" if set(draws.values()) != {usual} else ""
    lines += ["", f"Means over {usual} draws of the labels{others}; COIN's standard deviation between draws is "]
    lines[-1] += f"{spread:.1f} at most."
    return "\n".join(lines)


def beyond_markdown() -> str:
    """How far the default beyond the paper is ahead of the paper's methods, split by split on the same splits."""
    ours, theirs = (list(Store.snapshot(Path("results", name, "runs.sqlite")).runs()) for name in ("beyond", "node"))
    graphs = ("cora", "citeseer", "pubmed")
    usual = {"train_per_class": 20, "validation_per_class": 30}
    leads: dict[str, dict[str, tuple[float, float]]] = {}
    cells: dict[str, dict[str, str]] = {}
    for graph in graphs:
        # The default's own settings only, and all that the paper's table has.
        default = comparable(MixtureCOIN().settings())
        own = [run for run in ours if run.method == DEFAULT and comparable(run.settings) == default]
        runs = [replace(run, task="node") for run in own] + theirs
        for pair in paired(
            [run for run in runs if run.dataset == graph and run.condition == usual], ("accuracy",), DEFAULT
        ):
            half = float(student.ppf(0.975, pair.splits - 1)) * (pair.stderr or math.nan)
            leads.setdefault(pair.method, {})[graph] = pair.difference, half
            text = f"{pair.difference:+.1f} ± {half:.1f} ({pair.wins:g} of {pair.splits})"
            cells.setdefault(pair.method, {})[graph] = text
    for name, found in leads.items():
        mean = sum(lead for lead, _ in found.values()) / len(found)
        half = math.hypot(*(half for _, half in found.values())) / len(found)
        cells[name]["all"] = f"{mean:+.2f} ± {half:.2f}"
    lines = [f"| {DEFAULT} against | Cora | Citeseer | Pubmed | mean |", "| --- | ---: | ---: | ---: | ---: |"]
    places = (*graphs, "all")
    lines += [f"| {name} | {' | '.join(found.get(place, '-') for place in places)} |" for name, found in cells.items()]
    return "\n".join(lines)


def untitled(rows: list[Row]) -> str:
    """One table of one kind of labels, without the heading that the folder's own table has."""
    return markdown(rows).removeprefix("## ").partition("\n\n")[2]


def shown_by(row: Row) -> bool:
    """Whether a metric says something of a graph: accuracy does not where nine of ten nodes are of one class."""
    return (row.metric == "roc_auc") == (row.dataset in RARE)


def disagreeing_markdown() -> str:
    """How far COIN-adaptive is ahead of every method on graphs whose neighbours disagree, split by split."""
    runs = [run for run in Store.snapshot(Path("results", "beyond", "runs.sqlite")).runs() if "labels" in run.condition]
    places = sorted(
        {(kind(run.condition), run.dataset in RARE, run.dataset, run.condition) for run in runs}, reverse=True
    )
    lines = [
        "| COIN-adaptive against | " + " | ".join(METHODS_THERE) + " |",
        "| --- |" + " ---: |" * len(METHODS_THERE),
    ]
    for labels, rare, dataset, condition in places:
        own = [run for run in runs if run.dataset == dataset and run.condition == condition]
        if "COIN-adaptive" not in {run.method for run in own}:
            continue
        # Areas under the curve in hundredths, to be read as points are.
        scale = 100 if rare else 1
        found = {}
        for pair in paired(own, ("roc_auc" if rare else "accuracy",), "COIN-adaptive"):
            error = "" if pair.stderr is None else f" ± {scale * pair.stderr:.1f}"
            found[pair.method] = f"{scale * pair.difference:+.1f}{error} ({pair.splits})"
        what = f"{dataset.capitalize()}, {'10 %' if labels == 'tenth' else 'published'}"
        lines.append(f"| {what} | " + " | ".join(found.get(name, "-") for name in METHODS_THERE) + " |")
    return "\n".join(lines)


def seconds_markdown(disagreeing: bool = False) -> str:
    """Processor seconds of one fit; where COIN was fitted too, how often its own they are."""
    found = json.loads(Path("results/beyond/seconds.json").read_text())
    seconds = {name: own for name, own in found["seconds"].items() if ("COIN" not in own) == disagreeing}
    lines = [
        "| one fit | " + " | ".join(graph.capitalize() for graph in seconds) + " |",
        "| --- |" + " ---: |" * len(seconds),
    ]
    for fit in dict.fromkeys(fit for own in seconds.values() for fit in own):
        cells = []
        for own in seconds.values():
            ratio = f" ({own[fit] / own['COIN']:.1f})" if fit in own and "COIN" in own else ""
            cells.append(f"{own[fit]:.2f} s{ratio}" if fit in own else "-")
        lines.append(f"| {fit} | {' | '.join(cells)} |")
    over = f"means over {found['splits']} splits" if found["splits"] > 1 else "of one split"
    brackets = "" if disagreeing else "; in brackets, times COIN's own"
    lines += ["", f"Processor seconds on one core of a busy machine, {over}{brackets}."]
    return "\n".join(lines)


def forecasts_markdown() -> str:
    """What was aimed at, and means over panels; every panel is beside the runs."""
    runs = list(Store.snapshot(Path("results", "forecast", "runs.sqlite")).runs())
    found = forecast_tables(runs)
    return "\n\n".join(
        f"### {title}\n\n" + "\n".join(table) for title, table in found.items() if not title.startswith("Every panel")
    )


def duration(seconds: float) -> str:
    """A time as one reads it."""
    if seconds < 0.1:
        return f"{1000 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def rows_of(folder: str) -> list[Row]:
    """The committed rows of a folder of results."""
    return [Row.from_dict(row) for row in json.loads(Path("results", folder, "summary.json").read_text())]


demo = json.loads(Path("results/demo/accuracy.json").read_text())
node = rows_of("node")
shown = [row for row in node if row.method in ("MLP", "GCN", "APPNP", "GRAND", "Diff-ResNet", "COIN")]
update("README.md", {"demo table": demo_markdown(demo), "node table": markdown(shown)})
update("docs/citation-graphs.md", {"node table": markdown(node), "node methods": methods_markdown(node_methods)})
reported = reported_markdown(node, rows_of("node-public"), "cora")
own_graphs = Path("results/own-graphs/README.md").read_text().split("\n\n")[0]
update("docs/citation-graphs.md", {"reported table": reported, "own graphs table": own_graphs})
beyond = rows_of("beyond")
labelled_evenly = [row for row in beyond if kind(row.condition) == "even"]
update(
    "docs/beyond.md",
    {
        "beyond pairs": beyond_markdown(),
        "beyond table": untitled([row for row in labelled_evenly if row.method not in ABLATED]),
        "ablation table": untitled([row for row in labelled_evenly if row.method in ABLATED]),
        "public table": untitled([row for row in beyond if kind(row.condition) == "public"]),
        "beyond seconds": seconds_markdown(),
        "disagreeing seconds": seconds_markdown(disagreeing=True),
        **{
            f"disagreeing {labels} {metric}": untitled(
                [row for row in beyond if kind(row.condition) == labels and row.metric == metric and shown_by(row)]
            )
            for labels in ("tenth", "published")
            for metric in ("accuracy", "roc_auc")
        },
        "disagreeing pairs": disagreeing_markdown(),
        "beyond methods": methods_markdown(beyond_methods),
        "beyond axioms": axioms_markdown(zoo_tables(BEYOND)),
    },
)
covid = rows_of("covid")
for name, causal in (("covid table", False), ("covid causal table", True)):
    shown = [row for row in covid if row.condition == {"missing": 0.9, "causal": causal}]
    update("docs/covid.md", {name: markdown(shown)})
update("docs/covid.md", {"covid methods": methods_markdown(temporal_methods)})
prostate = rows_of("prostate")
update(
    "docs/prostate.md",
    {
        "prostate table": markdown(prostate),
        "prostate pairs": Path("results/prostate/pairs.md").read_text().strip(),
        "prostate methods": methods_markdown(tabular_methods),
    },
)
fewshot = rows_of("fewshot")
pairs = [
    Pair(**{**pair, "condition": Condition(pair["condition"])})
    for pair in json.loads(Path("results/fewshot/pairs.json").read_text())
]
update(
    "docs/few-shot-methods.md",
    {
        "cub table": fewshot_markdown(fewshot, "cub", backbone="efficientnet_lite0"),
        "cub pairs": fewshot_pairs_markdown(pairs, "cub", backbone="efficientnet_lite0"),
        "omniglot table": fewshot_markdown(fewshot, "omniglot", backbone="conv4"),
        "cub scratch table": fewshot_markdown(fewshot, "cub", backbone="conv4"),
        "episodic table": fewshot_markdown(fewshot, "omniglot", episodic=True),
        "episodic trainings": Path("results/fewshot/training.md").read_text().strip(),
        "published table": fewshot_published_markdown(),
    },
)
speed = json.loads(Path("results/speed/bench.json").read_text())
tables = json.loads(Path("results/tables/summary.json").read_text())
classes = {(20, False): "20 labels", (5, True): "5 per class"}
scores = {"accuracy": "accuracy", "balanced_accuracy": "balanced"}
judged = {**scores, "rank_accuracy": "rank", "log_loss": "log loss"}
values = tables_markdown(
    tables, "values", {(20, False): "20 labels", (50, False): "50 labels"}, {"r2": "R²", "rank_r2": "rank"}
)
update("README.md", {"classes table": tables_markdown(tables, "classes", classes, scores)})
update(
    "docs/alternatives.md",
    {
        "classes table": tables_markdown(tables, "classes", classes, judged),
        "budgets table": tables_markdown(
            tables, "classes", {(n, True): f"{n} per class" for n in (1, 2, 10)}, {**scores, "log_loss": "log loss"}
        ),
        "values table": values,
    },
)
text = rows_of("text")
update(
    "docs/texts.md",
    {
        f"{dataset} {word} table": text_markdown(text, dataset, balanced=balanced, metric=metric)
        for dataset in ("banking77", "ag_news")
        for word, balanced, metric in (("equal", True, "accuracy"), ("unequal", False, "balanced_accuracy"))
    },
)
if Path("results/forecast/runs.sqlite").exists():
    update("docs/forecasting.md", {"forecasts": forecasts_markdown()})
with Store("results/labelling/runs.sqlite") as store:
    labelling = store.runs("labelling")
update(
    "docs/labelling.md",
    {"asking table": asking_markdown(labelling), "doubting table": doubting_markdown(labelling)},
)
with Store("results/low-labels/runs.sqlite") as store:
    digits = store.runs("low-labels")
update(
    "docs/how-sure.md",
    {
        "digits table": means_markdown(digits, "autoencoder"),
        "digits pairs": pairs_markdown(digits, "autoencoder"),
        "pixels table": means_markdown(digits, "pixels"),
        "pixels pairs": pairs_markdown(digits, "pixels"),
        "noise table": Path("results/noisy-labels/table.md").read_text().strip(),
    },
)
update("docs/theory.md", {"axiom table": zoo_markdown()})
update("docs/columns.md", {"column table": columns_markdown()})
update("docs/performance.md", {"speed table": speed_markdown(speed)})
if Path("results/scale/bench.json").exists():
    scale = json.loads(Path("results/scale/bench.json").read_text())
    names = list(dict.fromkeys(row["method"] for row in scale))
    scale.sort(key=lambda row: (names.index(row["method"]), row["points"] or 0))
    parts = {"scale parts": scale_parts_markdown(scale), "products table": products_markdown(scale)}
    update("docs/scale.md", {"scale table": scale_markdown(scale)} | parts)
if Path("results/scale/layers.json").exists():
    layers = json.loads(Path("results/scale/layers.json").read_text())
    update("docs/scale.md", {"layers table": layers_markdown(layers["rows"])})
cluster = json.loads(Path("results/scale/cluster.json").read_text())
update("docs/scale.md", {"cluster table": cluster_markdown(cluster), "billion table": billion_markdown(cluster)})
sharded = json.loads(Path("results/scale/sharded.json").read_text())
update(
    "docs/distributed.md",
    {"sharded table": sharded_markdown(sharded["fits"]), "forecast table": forecast_markdown(sharded["forecasts"])},
)
for source, target in (
    ("results/node/accuracy.png", "node-accuracy.png"),
    ("results/node-costs/time.png", "node-time.png"),
    ("results/node-costs/memory.png", "node-memory.png"),
    ("results/node-ablation/strength.png", "node-strength.png"),
    ("results/fewshot/balance.png", "few-shot-balance.png"),
    ("results/fewshot/episodic.png", "few-shot-episodic.png"),
    ("results/covid/missing.png", "covid-missing.png"),
    ("results/covid/forecasts.png", "covid-forecasts.png"),
    ("results/covid/regions.png", "covid-regions.png"),
    ("results/prostate/curves.png", "prostate-curves.png"),
    ("results/prostate/genes.png", "prostate-genes.png"),
    ("results/speed/growth.png", "speed-growth.png"),
    ("results/scale/bench.png", "scale.png"),
    ("results/theory/certified.png", "certified.png"),
    ("results/labelling/curves.png", "label-curves.png"),
    ("results/low-labels/accuracy-autoencoder.png", "low-labels.png"),
    ("results/coverage/coverage-linear.png", "coverage.png"),
    ("results/coverage/classes-linear.png", "coverage-classes.png"),
    ("results/tables/ranks-unseen-20-labels-accuracy.png", "tables-ranks.png"),
):
    if Path(source).exists():
        shutil.copyfile(source, Path("docs/images") / target)
