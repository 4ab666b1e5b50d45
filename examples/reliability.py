"""What the temperature does: confidence against accuracy on Citeseer, with heavy weight decay.

CONDIFF_DATA=... python examples/reliability.py [PICTURE.png]
"""

import sys

import matplotlib
import numpy as np

from condiff import COINClassifier
from condiff.readers.node import largest_component
from condiff.reproduce.datasets.planetoid import load
from condiff.reproduce.demo import draw_labels

matplotlib.use("Agg")
import matplotlib.pyplot as plt

citeseer = largest_component(load("citeseer"))
known = citeseer.labels >= 0
labels = np.full(citeseer.n_nodes, -1)
labels[known] = draw_labels(citeseer.labels[known], per_class=20, draw=0)
hidden = known & (labels < 0)
truth = citeseer.labels[hidden]
words = (citeseer.features > 0).astype(float)


def reliability(confidence, right, bins=10):
    """Mean confidence, accuracy and number of points in equally filled bins."""
    order = np.array_split(np.argsort(confidence), bins)
    return [(confidence[part].mean(), right[part].mean(), len(part)) for part in order]


model = COINClassifier(base="residual", graph="precomputed", weight_decay=0.05, epochs=200)
model.fit(words, labels, adjacency=citeseer.adjacency)
calibrated = model.predict_proba(words)[hidden]
# A temperature divides the logarithms; what the network said before it is their multiple again.
raw = calibrated**model.temperature_
raw /= raw.sum(axis=1, keepdims=True)

figure, panels = plt.subplots(1, 2, figsize=(8, 4), sharey=True, layout="constrained", dpi=150)
answers = (("raw outputs", 1.0, raw), ("with temperature", model.temperature_, calibrated))
for panel, (title, temperature, probabilities) in zip(panels, answers, strict=True):
    right = probabilities.argmax(axis=1) == truth
    points = reliability(probabilities.max(axis=1), right)
    error = sum(size * abs(sure - found) for sure, found, size in points) / hidden.sum()
    loss = -np.log(probabilities[np.arange(len(truth)), truth]).mean()
    panel.plot([0, 1], [0, 1], color="0.7", linestyle="--", linewidth=1)
    panel.plot([sure for sure, _, _ in points], [found for _, found, _ in points], "o-", color="#0072B2")
    panel.set(xlim=(0, 1), ylim=(0, 1), xlabel="mean confidence", aspect="equal")
    panel.set_title(f"{title} (T = {temperature:.3g})\ncalibration error {error:.2f}, log loss {loss:.2f}", fontsize=10)
    print(f"{title}: accuracy {right.mean():.3f}, calibration error {error:.3f}, log loss {loss:.3f}")
panels[0].set_ylabel("accuracy on unlabelled nodes")
target = sys.argv[1] if len(sys.argv) > 1 else "reliability.png"
figure.savefig(target)
print(f"written to {target}")
