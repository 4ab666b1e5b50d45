"""The data sets: where files come from, then one loader per file.

- :mod:`condiff.reproduce.datasets.sources`: find, download and verify files; the registry of all data sets.
- :mod:`condiff.reproduce.datasets.planetoid`: the citation graphs Cora, Citeseer and Pubmed.
- :mod:`condiff.readers.npz_graph`: your own graph, in the common benchmark format.
- :mod:`condiff.readers.graph_folder`: your own graph, as two CSV files or in that format.
- :mod:`condiff.readers.node`: what those load.
"""
