"""The command line: one command a file, all of them registered in :mod:`condiff.cli.app`."""
