"""The data sets: where files come from, then one loader a file.

- :mod:`condiff.datasets.sources`: find, download and verify files; the registry of all data sets.
- :mod:`condiff.datasets.planetoid`: the citation graphs Cora, Citeseer and Pubmed.
- :mod:`condiff.datasets.npzgraph`: your own graph, in the common benchmark format.
- :mod:`condiff.datasets.graph_folder`: your own graph, as two CSV files or in that format.
- :mod:`condiff.datasets.node`: what those load.
"""
