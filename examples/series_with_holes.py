"""Series with holes: noisy counts along a chain of places, two fifths of them missing, and its next three days.

python examples/series_with_holes.py [PICTURE.png]
"""

import sys

import matplotlib
import numpy as np

from condiff import PanelForecaster

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HORIZON, SHOWN = 3, (0, 4, 8)
rng = np.random.default_rng(1)
days, places = np.arange(90 + HORIZON)[:, None], np.arange(12)
truth = 50 + 20 * np.sin(days / 15 - places / 8) + rng.normal(0, 12, (len(days), len(places)))
values = np.where(rng.random(truth.shape) < 0.4, np.nan, truth)[:-HORIZON]
chain = np.eye(len(places), k=1) + np.eye(len(places), k=-1)

forecast = PanelForecaster(horizon=HORIZON).fit(values, chain).predict()
error = np.sqrt(np.mean((forecast - truth[-HORIZON:]) ** 2))
last = np.array([column[~np.isnan(column)][-1] for column in values.T])
plain = np.sqrt(np.mean((last - truth[-HORIZON:]) ** 2))

figure, panels = plt.subplots(1, len(SHOWN), figsize=(10, 3), sharey=True, layout="constrained", dpi=150)
for panel, place in zip(panels, SHOWN, strict=True):
    panel.plot(truth[:, place], color="0.8", label="truth")
    panel.plot(values[:, place], "k.", markersize=4, label="known")
    panel.plot(np.arange(len(values), len(truth)), forecast[:, place], "o-", color="C1", markersize=3, label="forecast")
    panel.set(title=f"place {place + 1}", xlabel="day", xlim=(40, len(truth)))
panels[0].legend(frameon=False, fontsize=8)
figure.suptitle(f"root mean square error of these days: {error:.1f}, of the last value: {plain:.1f}", fontsize=10)
target = sys.argv[1] if len(sys.argv) > 1 else "series-with-holes.png"
figure.savefig(target)
print(f"error {error:.1f}, last value {plain:.1f}; written to {target}")
