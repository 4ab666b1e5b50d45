"""How files are damaged: bytes, values of a JSON document, arrays, members of archives; each from one random number."""

from __future__ import annotations

import copy
import gzip
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

NUMBERS: list[Any] = [
    0, 1, -1, 2, 3, 255, 256, -128, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53, 2**63 - 1, 2**63, -(2**63), 10**9, 10**15,
    10**30, 0.0, -0.0, 0.5, -1.5, 1e-300, 1e300, 1e308, -1e308, 5e-324,
]  # fmt: skip
WORDS = [
    "", " ", "a", "nan", "inf", "None", "true", "-1", "../../etc/passwd", "/dev/full", "\x00", "\x1b[2J", "é" * 40,
    "=1+1", "$array", "x" * 5000, "\ud800", "\n\n", "auto", "none", "trees", "euclidean", "exact", "chebyshev", "power",
]  # fmt: skip


def bytes_of(random: Random, content: bytes, other: bytes = b"") -> bytes:
    """Content with one to eight changes anywhere."""
    data = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        if not data:
            data += random.randbytes(random.randrange(1, 50))
        at = random.randrange(len(data))
        length = min(len(data) - at, random.choice((1, 1, 2, 4, 8, 64, 1000)))
        change = random.randrange(10)
        if change == 0:
            data[at] ^= 1 << random.randrange(8)
        elif change == 1:
            data[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF, 0x0A, 0x22, 0x2C, 0x5B, 0x7B))
        elif change == 2:
            del data[at : at + length]
        elif change == 3:
            data[at:at] = data[at : at + length] * random.choice((1, 2, 50))
        elif change == 4:
            data[at:at] = random.randbytes(length)
        elif change == 5:
            del data[at:]
        elif change == 6:
            number = int(random.choice([n for n in NUMBERS if isinstance(n, int) and abs(n) <= 2**63 - 1]))
            kind = random.choice(["<i", ">i", "<q", ">q", "<h"])
            size = struct.calcsize(kind)
            data[at : at + size] = (number & (2 ** (8 * size) - 1)).to_bytes(
                size, "little" if kind[0] == "<" else "big"
            )
        elif change == 7:
            data[at : at + length] = bytes(length)
        elif change == 8 and other:
            start = random.randrange(len(other))
            data[at : at + length] = other[start : start + length]
        else:
            data[at : at + length] = random.randbytes(length)
    return bytes(data)


def json_of(random: Random, content: Any) -> Any:
    """A document with one to three of its values changed, removed, renamed, exchanged or nested."""

    def copied(value: Any) -> Any:
        try:
            return json.loads(json.dumps(value))
        except RecursionError:  # nested by an earlier change
            return []

    content = copied(content)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        places = _places(content)
        if not places:
            return random.choice([None, [], {}, 3, "x"])
        holder, key = random.choice(places)
        if key not in holder if isinstance(holder, dict) else key >= len(holder):
            continue
        value = holder[key]
        change = random.randrange(9)
        if change == 0 and isinstance(holder, dict):
            del holder[key]
        elif change == 1 and isinstance(holder, dict):
            holder[random.choice(WORDS)] = holder.pop(key)
        elif change == 2:
            other, name = random.choice(places)
            holder[key], other[name] = copied(other[name]), value
        elif change == 3:
            for _ in range(random.choice((1, 3, 70, 900))):
                value = random.choice(([value], {"$dict": {"a": value}}))
            holder[key] = value
        elif change == 4 and isinstance(value, list):
            holder[key] = value[::-1] if random.random() < 0.5 else (value * random.choice((2, 0, 100)))[:10_000]
        elif change == 5 and isinstance(value, int | float) and not isinstance(value, bool):
            holder[key] = random.choice((value + 1, value - 1, -value, value * 10**9, float(value), str(value)))
        elif change == 6 and isinstance(holder, list):
            del holder[key]
        else:
            holder[key] = plain_value(random)
    return content


def plain_value(random: Random) -> Any:
    """Any JSON value."""
    return copy.deepcopy(
        random.choice(
            [random.choice(NUMBERS), random.choice(WORDS), None, True, False, [], {}, [1, 2], ["a"], {"a": 1}, [[1.5]],
             {"$float": "nan"}, {"$float": "inf"}, {"$dict": {}}, {"$array": "state.x", "shape": [1]}, {"$pairs": []}]
        )
    )  # fmt: skip


def _places(content: Any) -> list[tuple[Any, Any]]:
    found, todo = [], [content]
    while todo:
        value = todo.pop()
        keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        for key in keys:
            found.append((value, key))
            todo.append(value[key])
    return found


def array_of(random: Random, array: np.ndarray) -> np.ndarray:
    """An array with other values, type or shape."""
    array = np.atleast_1d(np.array(array))
    change = random.randrange(10)
    if change <= 4 and array.size and array.dtype.kind in "biuf":
        flat = array.reshape(-1)
        for _ in range(random.choice((1, 1, 5))):
            value = random.choice([*NUMBERS, float("nan"), float("inf"), -float("inf")])
            with np.errstate(all="ignore"):
                try:
                    flat[random.randrange(flat.size)] = value
                except (OverflowError, ValueError):
                    flat[random.randrange(flat.size)] = random.randrange(-100, 100) % 256
        return array
    if change == 5 and array.size:
        return array.reshape(-1)[: random.randrange(array.size)].copy()
    if change == 6:
        return np.concatenate([array.reshape(-1)] * random.choice((2, 3)))
    if change == 7 and array.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            return array.astype(random.choice(["f4", "f8", "i4", "i8", "u1", "i2", "f2", "?", "u8"]))
    if change == 8:
        return np.ascontiguousarray(array.T if array.ndim > 1 else array[::-1])
    return np.full_like(array, random.choice((0, 1, 7))) if array.dtype.kind in "iuf" else array[:0].copy()


def npz_of(random: Random, content: bytes) -> bytes:
    """An NPZ file with changed arrays, headers, names or members, the checksums of the archive put right."""
    members = unzipped(content)
    name = random.choice(list(members))
    if random.random() < 0.4:
        stream = io.BytesIO()
        np.save(stream, array_of(random, np.load(io.BytesIO(members[name]), allow_pickle=False)))
        members[name] = stream.getvalue()
    else:
        members = member_of(random, members, name, lambda data: _header_of(random, data))
    return zipped(random, members)


def _header_of(random: Random, data: bytes) -> bytes:
    if random.random() < 0.5:
        return bytes_of(random, data)
    old = data[10 : 10 + int.from_bytes(data[8:10], "little")]
    words = [b"10000000", b"-1", b"(1,)", b"'<f8'", b"'|O'", b"'|V0'", b"'<U9'", b"'>i2'", b"True", b"1000000000000000"]
    parts = old.split(b" ")
    parts[random.randrange(len(parts))] = random.choice(words)
    new = b" ".join(parts).rstrip() + b"\n"
    return data[:8] + len(new).to_bytes(2, "little") + new + data[10 + len(old) :]


def member_of(
    random: Random, members: dict[str, bytes], name: str, change: Callable[[bytes], bytes]
) -> dict[str, bytes]:
    """Change, drop, rename or repeat a member of an archive."""
    found = dict(members)
    what = random.randrange(8)
    if what == 0:
        del found[name]
    elif what == 1:
        found[random.choice(["X.npy", "labels.npy", "../x", "a" * 300, "é"])] = found.pop(name)
    else:
        found[name] = change(found[name])
    return found


def unzipped(content: bytes) -> dict[str, bytes]:
    """The members of an archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(random: Random, members: dict[str, bytes]) -> bytes:
    """Members as an archive; sometimes one that claims to unpack to more."""
    stream = io.BytesIO()
    how = random.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED))
    with zipfile.ZipFile(stream, "w", how) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    content = stream.getvalue()
    if members and random.random() < 0.1:
        size = len(random.choice(list(members.values())))
        content = content.replace(
            size.to_bytes(4, "little"), random.choice((2**31, 2**32 - 1, 0)).to_bytes(4, "little")
        )
    return content


def xml_of(random: Random, content: bytes) -> bytes:
    """A sheet with changed text in one of its XML members."""
    members = unzipped(content)
    inner = [name for name in members if name.endswith(".xml")] or list(members)
    weights = [20 if "sheet1" in name or "content" in name else 1 for name in inner]
    name = random.choices(inner, weights)[0]

    def change(data: bytes) -> bytes:
        if random.random() < 0.3:
            return bytes_of(random, data)
        for _ in range(random.choice((1, 3))):
            swaps = [
                (b'r="A1"', b'r="XFD1048576"'), (b'r="2"', b'r="1048576"'), (b'r="B2"', b'r="ZZZZ99"'),
                (b"<v>", b"<v>9e999"), (b't="s"', b't="b"'), (b't="s"', b't="e"'), (b"<row", b"<row/><row"),
                (b"</c>", b""), (b"<v>0</v>", b"<v>4294967295</v>"), (b'ref="', b'ref="A1:XFD1048576'),
                (b"<table:table-row", b'<table:table-row table:number-rows-repeated="4294967295"'),
                (b"<table:table-cell", b'<table:table-cell table:number-columns-repeated="99999999999"'),
                (b'"string"', b'"float" office:value="9e999"'), (b'"string"', b'"date" office:date-value="x"'),
                (b"<c ", b"<c s='99999' "), (b"?>", b'?><!DOCTYPE x [<!ENTITY a "b"><!ENTITY c "&a;&a;">]>'),
            ]  # fmt: skip
            data = data.replace(*random.choice(swaps), random.choice((1, -1)))
        return data

    return zipped(random, member_of(random, members, name, change))


def png_of(random: Random, content: bytes) -> bytes:
    """A PNG file with a changed chunk, and the sums of its chunks right."""
    chunks, at = [], 8
    while at + 8 <= len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        chunks.append([content[at + 4 : at + 8], content[at + 8 : at + 8 + length]])
        at += 12 + length
    chunk = random.choice(chunks)
    if chunk[0] == b"IHDR" and random.random() < 0.7:
        size = [random.choice((1, 5, 8, 100, 30_000, 200_000, 2**31 - 1)) for _ in range(2)]
        kind = random.choice(((8, 2), (16, 0), (1, 0), (8, 3), (8, 6), (16, 2), (3, 9)))
        chunk[1] = struct.pack(">IIBBBBB", *size, *kind, 0, 0, random.choice((0, 0, 1, 7)))
    elif chunk[0] == b"IDAT" and random.random() < 0.5:
        chunk[1] = zlib.compress(bytes(random.choice((0, 10, 10_000, 3_000_000))), 9)
    else:
        chunk[1] = bytes_of(random, chunk[1])
    if random.random() < 0.2:
        chunks.insert(
            random.randrange(len(chunks)), [random.choice((b"acTL", b"tRNS", b"PLTE", b"eXIf", b"iCCP")), b"\0" * 20]
        )
    body = b"".join(len(d).to_bytes(4, "big") + k + d + zlib.crc32(k + d).to_bytes(4, "big") for k, d in chunks)
    return content[:8] + body


def text_of(random: Random, content: bytes) -> bytes:
    """Delimited text with other cells, quotes, delimiters, line ends and encodings."""
    text = content.decode()
    for _ in range(random.choice((1, 1, 2, 4))):
        change = random.randrange(8)
        lines = text.split("\n")
        at = random.randrange(len(lines))
        if change == 0:
            cells = lines[at].split(",")
            cells[random.randrange(len(cells))] = random.choice(
                [*WORDS, *map(str, NUMBERS), '"', '""', "1e400", "9" * 400]
            )
            lines[at] = ",".join(cells)
        elif change == 1:
            lines[at] += random.choice((",", ",,,,", '"', "\r", "\x00", "," * 3000))
        elif change == 2:
            lines[at:at] = [lines[at]] * random.choice((1, 50))
        elif change == 3:
            del lines[at]
        elif change == 4:
            lines = [line.replace(",", random.choice(";\t| ")) for line in lines]
        elif change == 5:
            lines[at] = random.choice(("#", "sep=;", '"' * 9, "\ufeff", "﻿a,b", "=cmd|'/C calc'!A0"))
        elif change == 6:
            lines[at] = "".join(random.choice(',";\n\t ab1.-\x00é') for _ in range(40))
        text = "\n".join(lines)
    data = text.encode(random.choice(("utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-32")), "surrogatepass")
    return bytes_of(random, data) if random.random() < 0.3 else data


def gzip_of(random: Random, content: bytes) -> bytes:
    """Gzipped text, with damage inside or outside."""
    inner = gzip.decompress(content)
    if random.random() < 0.5:
        return gzip.compress(text_of(random, inner))
    return bytes_of(random, content)
