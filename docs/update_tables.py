"""Put the committed results into the README: python docs/update_tables.py, from the project's root."""

import json
from pathlib import Path

from condiff.experiments.tables import demo_markdown, put_table
from condiff.files import write_text

readme = Path("README.md")
rows = json.loads(Path("results/demo/accuracy.json").read_text())
write_text(readme, put_table(readme.read_text(), "demo table", demo_markdown(rows)))
