"""Workers that go through stages together, as far as it needs no cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from condiff.distributed import crew

pytest.importorskip("distributed", reason="pip install 'condiff[cluster]'")


class _Deserted:
    """A scheduler that takes tasks, and has no worker for them."""

    def ncores(self) -> dict[str, int]:
        return {}

    def submit(self, *task: Any, pure: bool) -> _Deserted:
        return self

    def done(self) -> bool:
        return False


def test_a_cluster_without_workers_is_told_and_what_is_finished_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "_BEAT", 0.0)
    monkeypatch.setattr(crew, "_PATIENCE", 0.1)
    workers = crew.Crew(_Deserted(), memory=10**9)
    with pytest.raises(crew.ClusterLostError, match=r"no worker is left.*the same command continues there"):
        workers.run(crew.Work(tmp_path), "encode", print, {0: ()})
