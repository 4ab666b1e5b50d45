"""What holds for every protocol of the registry."""

from __future__ import annotations

import subprocess
import sys

from condiff.reproduce.protocols import ABOUT, BENCHES, PROTOCOLS


def test_all_are_listed_with_what_they_are_about() -> None:
    assert list(ABOUT) == list(PROTOCOLS)
    assert set(BENCHES) < set(PROTOCOLS)


def test_their_options_are_known_without_torch_and_scikit_learn() -> None:
    program = (
        "import sys\n"
        "from condiff.reproduce.protocols import PROTOCOLS, protocol\n"
        "assert all(protocol(name).options and protocol(name).about for name in PROTOCOLS)\n"
        "print({'torch', 'sklearn', 'scipy.stats', 'matplotlib'} & set(sys.modules))\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"
