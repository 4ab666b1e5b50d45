"""The command line: one command per file, all registered in :mod:`condiff.cli.app`.

Commands import torch and what needs it only when they run, so that ``--help`` is quick.
"""
