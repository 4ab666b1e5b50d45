"""One engine per file; a new one is one file and one line here."""

from __future__ import annotations

from condiff.training.engine import Engine
from condiff.training.engines.blocked import Blocked
from condiff.training.engines.genewise import GeneWiseEngine
from condiff.training.engines.gram import Gram
from condiff.training.engines.narrow import Narrow
from condiff.training.engines.panel import Panel
from condiff.training.engines.projected import Projected
from condiff.training.engines.reference import Reference
from condiff.training.engines.streamed import Streamed
from condiff.training.engines.written import Written

#: In the order in which they are asked: the first that neither refuses nor declines is taken.
ENGINES: tuple[Engine, ...] = (
    GeneWiseEngine(),
    Panel(),
    Blocked(),
    Streamed(),
    Narrow(),
    Gram(),
    Written(),
    Projected(),
    Reference(),
)
