"""Two moons, three labels each: the same network without diffusion and with it.

python examples/two_moons.py [PICTURE.png]
"""

import sys

import matplotlib
import numpy as np
from sklearn.datasets import make_moons

from condiff import COINClassifier

matplotlib.use("Agg")
import matplotlib.pyplot as plt

X, y = make_moons(600, noise=0.08, random_state=1)
labels = np.full(len(y), -1)
shown = np.concatenate([np.random.default_rng(4).choice(np.flatnonzero(y == c), 3, replace=False) for c in (0, 1)])
labels[shown] = y[shown]

figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained", dpi=150)
for panel, title, options in (
    (panels[0], "the network without diffusion", {"layers": 0}),
    (panels[1], "with diffusion over the graph", {}),
):
    model = COINClassifier(**options).fit(X, labels)
    accuracy = (model.transduction_ == y)[labels < 0].mean()
    dots = panel.scatter(*X.T, c=model.predict_proba(X)[:, 1], cmap="coolwarm", s=9, vmin=0, vmax=1)
    panel.scatter(*X[shown].T, c=y[shown], cmap="coolwarm", s=90, marker="*", edgecolor="black", linewidth=0.8)
    panel.set_title(f"{title}: {100 * accuracy:.1f} % right", fontsize=10)
    panel.set_axis_off()
figure.colorbar(dots, ax=panels, label="probability of class 1", shrink=0.8)
target = sys.argv[1] if len(sys.argv) > 1 else "two-moons.png"
figure.savefig(target)
print(f"written to {target}")
