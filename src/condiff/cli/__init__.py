"""The command line: one command a file, all of them registered in :mod:`condiff.cli.app`.

Commands import torch and what needs it when they run, so that ``--help`` answers at once.
"""
