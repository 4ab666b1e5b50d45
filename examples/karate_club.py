"""Your own graph: the karate club that split, predicted from its two leaders.

python examples/karate_club.py [PICTURE.png]
"""

import sys

import matplotlib
import networkx as nx
import numpy as np

from condiff import COINClassifier

matplotlib.use("Agg")
import matplotlib.pyplot as plt

club = nx.karate_club_graph()
side = np.array([club.nodes[member]["club"] for member in club], dtype=object)
leaders = [0, 33]
known = np.where(np.isin(np.arange(len(club)), leaders), side, None)

model = COINClassifier(graph="precomputed").fit(nx.to_numpy_array(club, weight=None), known)
probability = model.predict_proba(nx.to_numpy_array(club, weight=None))[:, 1]
right = model.transduction_ == side

figure, panel = plt.subplots(figsize=(7, 4.6), layout="constrained", dpi=150)
place = nx.spring_layout(club, seed=2)
nx.draw_networkx_edges(club, place, ax=panel, alpha=0.25)
drawn = nx.draw_networkx_nodes(
    club,
    place,
    ax=panel,
    node_color=probability,
    cmap="coolwarm",
    vmin=0,
    vmax=1,
    node_size=[420 if member in leaders else 170 for member in club],
    edgecolors=["black" if ok else "gold" for ok in right],
    linewidths=[1.0 if ok else 3.0 for ok in right],
)
nx.draw_networkx_labels(club, place, {member: str(member + 1) for member in leaders}, font_size=9, ax=panel)
figure.colorbar(drawn, ax=panel, label=f"probability of {model.classes_[1]}", shrink=0.8)
panel.set_title(
    f"two members labelled (large), {right.sum()} of {len(club)} right; golden rings are wrong", fontsize=10
)
panel.set_axis_off()
target = sys.argv[1] if len(sys.argv) > 1 else "karate-club.png"
figure.savefig(target)
print(f"{right.sum()} of {len(club)} right; written to {target}")
