"""What kind of graph a file holds, if any: seen from how it begins, before anything large is imported to read it."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from condiff.files import refusing

#: So many bytes of a file show what it is.
START = 4096


def kind_of(path: Path) -> str | None:
    """Which kind of graph a file looks like by how it begins, "edges" for any other text; None for none.

    "packed", "pickle" and "gexf" are known only to be refused.
    """
    with path.open("rb") as stream:
        start = stream.read(START)
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if is_archive(path):
        return "torch" if _has_tensors(path) else "npz"
    if path.suffix.lower() == ".npz":
        return "npz"
    if text.startswith(b"%%matrixmarket"):
        return "mtx"
    if text.startswith((b"<?xml", b"<graphml", b"<gexf")):
        return "gexf" if b"<gexf" in text else "graphml"
    if start[8:9] == b"{" and b"\0" in start[:8]:  # the length of a header, then the header
        return "safetensors"
    if start.startswith(b"\x1f\x8b"):
        return "packed"
    if start.startswith(b"\x80") and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "pickle"
    if b"\0" in start:
        return None
    if text.startswith(b"{"):
        return "json"
    if re.match(rb"(creator\s[^\n]*\n|version\s[^\n]*\n|comment\s[^\n]*\n|#[^\n]*\n|\s)*graph\s*\[", text):
        return "gml"
    return "edges"


def holds_graph(path: Path) -> bool:
    """Whether a file is a graph and nothing else: a list of edges is also a table, and a table may be NPZ or JSON."""
    kind = kind_of(path) if path.is_file() else None
    if kind == "npz":
        from condiff.readers.npz_graph import has_edges

        return is_archive(path) and has_edges(path)
    if kind == "json":
        with path.open("rb") as stream:
            start = stream.read(START)
        return path.suffix.lower() == ".json" and re.search(rb'"(nodes|links|edges)"\s*:\s*\[', start) is not None
    return kind not in (None, "edges", "packed", "pickle")


def is_archive(path: Path) -> bool:
    """Whether a file is a ZIP archive; looking for that alone fails where one says that it spans several disks."""
    with refusing(path, "a readable archive", "save it again"):
        return zipfile.is_zipfile(path)


def _has_tensors(path: Path) -> bool:
    with refusing(path, "a readable archive", "save it again"), zipfile.ZipFile(path) as archive:
        return any(name.endswith("data.pkl") for name in archive.namelist())
