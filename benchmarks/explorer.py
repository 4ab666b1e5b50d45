"""How long a frame of the explorer takes in a browser while layers and strength are dragged, at 5,000 points.

    python benchmarks/explorer.py [--points 5000]

Needs Chromium and the extra ``browser`` (``make browser``). ``work`` is what the page itself does in a frame (layers
and drawing), ``apart`` the time from one frame to the next, which also has the browser's own work in it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from condiff.pages.explorer import write_explorer
from condiff.pages.scene import example_scene

_DRAG = """async ([id, from, to, steps]) => {
  const slider = document.getElementById(id), apart = [];
  const before = explorer.frames().length;
  let last = performance.now();
  for (let step = 0; step <= steps; step++) {
    slider.value = from + (to - from) * step / steps;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    apart.push(now - last);
    last = now;
  }
  const began = performance.now();
  while (!explorer.state().settled) await new Promise(requestAnimationFrame);
  return { apart: apart.slice(1), work: explorer.frames().slice(-steps), settle: performance.now() - began };
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=5000)
    arguments = parser.parse_args()
    chromium = os.environ.get("CONDIFF_CHROMIUM") or shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        print("no Chromium, or no playwright: make browser")
        sys.exit(0)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        out = Path(folder) / "explorer.html"
        scene = example_scene("moons", arguments.points)
        write_explorer(scene, out, "python benchmarks/explorer.py")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.goto(out.as_uri())
        page.evaluate(_DRAG, ["layers", 707, 707, 1])
        edges = (scene.weights.nnz - scene.n_points) // 2
        print(f"{scene.n_points:,} points, {edges:,} edges, {scene.layers} layers, {out.stat().st_size / 1e3:.0f} kB")
        for name, drag in (
            ("layers 0 to 600", ["layers", 0, 1000, 120]),
            ("layers 600 to 0", ["layers", 1000, 0, 120]),
            ("strength", ["strength", 200, 450, 120]),
        ):
            page.evaluate(_DRAG, ["layers", 707, 707, 1])
            found = page.evaluate(_DRAG, drag)
            lines = "; ".join(_line(each, found[each]) for each in ("work", "apart"))
            print(f"{name:16s} {lines}; {found['settle']:.0f} ms to settle")
        browser.close()


def _line(name: str, values: list[Any]) -> str:
    ordered = sorted(values)
    return f"{name}: median {ordered[len(ordered) // 2]:.1f} ms, worst {ordered[-1]:.1f} ms"


if __name__ == "__main__":
    main()
