"""``python -m condiff``: the command line, where its script is not on the path."""

from condiff.cli.app import main

main()
