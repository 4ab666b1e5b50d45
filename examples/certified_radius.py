"""Certified radii: how far a digit may move before its answer can change, for sure ones and for unsure ones.

python examples/certified_radius.py [PICTURE.png]
"""

import sys

import matplotlib
import numpy as np
from sklearn.datasets import load_digits

from condiff import COINClassifier
from condiff.theory import SmoothedClassifier

matplotlib.use("Agg")
import matplotlib.pyplot as plt

X, y = load_digits(return_X_y=True)
X = X / 16
fitted, asked = np.arange(1000), np.arange(1000, 1060)
labels = np.full(len(fitted), -1)
labels[:50] = y[:50]
model = COINClassifier(base="residual", folds=0).fit(X[fitted], labels)

smoothed = SmoothedClassifier(model, noise=0.25, samples=200, selection_samples=50, alpha=0.01)
found = smoothed.certify(X[asked])
order = np.argsort(found.radius)
chosen = np.concatenate([order[:5], order[-5:]])

figure, panels = plt.subplots(2, 5, figsize=(7.5, 3.8), layout="constrained", dpi=150)
for panel, place in zip(panels.flat, chosen, strict=True):
    panel.imshow(X[asked[place]].reshape(8, 8), cmap="gray_r")
    answer = "abstains" if found.abstained[place] else f"{found.labels[place]}, radius {found.radius[place]:.2f}"
    wrong = not found.abstained[place] and found.labels[place] != y[asked[place]]
    panel.set_title(answer, fontsize=9, color="C3" if wrong else "black")
    panel.set_axis_off()
[sure] = found.certified_accuracy(y[asked], 0.25)
figure.suptitle(f"certainly right within a distance of 0.25: {100 * sure:.0f} % of {len(asked)} digits", fontsize=10)
target = sys.argv[1] if len(sys.argv) > 1 else "certified-radius.png"
figure.savefig(target)
print(f"{found.abstained.sum()} of {len(asked)} abstained; written to {target}")
