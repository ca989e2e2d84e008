"""Files of named arrays: a line that names the format, a line of JSON with the name, type and length of each array, and
then the arrays one after the other, little-endian. NumPy alone writes and reads them.

The line of JSON is checked like any other input, and so is the size of the file: nothing is read that it does not hold.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.errors import StorageError
from tidelog.storage import durable_files as disk
from tidelog.storage.checked_json import Item, to_text

Arrays = Mapping[str, npt.NDArray[Any]]
Layout = Mapping[str, str]
"""The types of arrays by name, in their order."""

MAGIC = b"tidelog arrays 1\n"

# More than the names, types and lengths of as many columns as a predicate can have arguments.
_LONGEST_LINE = 1 << 22


def write_arrays(path: Path, arrays: Arrays) -> str:
    """Write arrays to a new file, force it to disk, and return its checksum."""
    written = {name: np.ascontiguousarray(array, array.dtype.newbyteorder("<")) for name, array in arrays.items()}
    header = to_text({name: [array.dtype.name, len(array)] for name, array in written.items()}, indent=None)
    pieces: list[Any] = [MAGIC, header, b"\n", *(array.view(np.uint8).data for array in written.values())]
    digest = hashlib.sha256()
    with path.open("xb") as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
        disk.force(file)
    return digest.hexdigest()


def read_arrays(path: Path, expected: str) -> Arrays:
    """The arrays in a file, which must be as it was written."""
    with disk.reading(path) as file:
        if disk.checksum_of(file) != expected:
            raise damaged(path)
        file.seek(0)
        if file.read(len(MAGIC)) != MAGIC:
            raise refused(path, "it does not begin as a file of arrays does")
        header = Item.of_json(file.readline(_LONGEST_LINE), path)
        left = os.fstat(file.fileno()).st_size - file.tell()
        arrays = {}
        for name, item in header.members():
            kind, length = item.pair()
            dtype = np.dtype(_TYPES.get(kind.text()) or kind.refuse("is no type of an array"))
            size = dtype.itemsize * length.integer(0, left)
            if size > left:
                length.refuse("is more than the file holds")
            left -= size
            arrays[name] = _array(path, file.read(size), dtype)
        if left:
            raise refused(path, f"{left} bytes follow its arrays")
        return arrays


_TYPES = {"bool": "|b1", "uint8": "|u1", "int32": "<i4", "int64": "<i8"}


def _array(path: Path, data: bytes, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if dtype == np.bool_ and data.translate(None, b"\0\1"):
        raise refused(path, "a truth value is neither 0 nor 1")
    return np.frombuffer(data, dtype)


def damaged(path: Path) -> StorageError:
    return StorageError(f"{path} is damaged: its checksum is not the one that was saved; restore it from a copy")


def refused(path: Path, problem: str) -> StorageError:
    return StorageError(f"{path} cannot be understood: {problem}; restore it from a copy")


def check_layout(path: Path, arrays: Arrays, layout: Layout) -> None:
    """Refuse arrays other than these, in this order."""
    found = [(name, array.dtype.name) for name, array in arrays.items()]
    if found != list(layout.items()):
        shown, wanted = (", ".join(f"{name} {kind}" for name, kind in items) for items in (found, layout.items()))
        raise refused(path, f"it has the columns {shown:.200}, not {wanted:.200}")
