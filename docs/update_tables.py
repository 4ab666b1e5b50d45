"""Put the committed results into README and docs: python docs/update_tables.py, from the project's root."""

import json
import shutil
from importlib import import_module
from pathlib import Path
from types import ModuleType

from condiff.baselines import node as node_methods
from condiff.baselines import temporal as temporal_methods
from condiff.experiments.tables import demo_markdown, markdown, put_table
from condiff.files import write_text


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


demo = json.loads(Path("results/demo/accuracy.json").read_text())
node = json.loads(Path("results/node/summary.json").read_text())
shown = [row for row in node if row["method"] in ("MLP", "GCN", "APPNP", "GRAND", "Diff-ResNet", "COIN")]
update("README.md", {"demo table": demo_markdown(demo), "node table": markdown(shown)})
update("docs/citation-graphs.md", {"node table": markdown(node), "node methods": methods_markdown(node_methods)})
covid = json.loads(Path("results/covid/summary.json").read_text())
for name, dataset in (("covid table", "england-90-missing"), ("covid causal table", "england-90-missing-causal")):
    update("docs/covid.md", {name: markdown([row for row in covid if row["dataset"] == dataset])})
update("docs/covid.md", {"covid methods": methods_markdown(temporal_methods)})
for source, target in (
    ("results/node/accuracy.png", "node-accuracy.png"),
    ("results/node-costs/time.png", "node-time.png"),
    ("results/node-costs/memory.png", "node-memory.png"),
    ("results/node-ablation/strength.png", "node-strength.png"),
    ("results/covid/missing.png", "covid-missing.png"),
):
    if Path(source).exists():
        shutil.copyfile(source, Path("docs/images") / target)
