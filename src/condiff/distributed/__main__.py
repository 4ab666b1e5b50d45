"""``python -m condiff.distributed``, as torchrun starts it; see :mod:`condiff.cli.distributed`."""

from condiff.cli.distributed import main

if __name__ == "__main__":
    main()
