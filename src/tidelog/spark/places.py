"""Places of data: paths of the file system, and addresses of other file systems, such as `s3a://bucket/folder`.

Paths are read and written by the driver and by tasks themselves, all under the same name; addresses by Spark alone,
through whatever Hadoop file system the session has for their scheme. `file:` is another way to write a path.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tidelog.errors import DataError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def is_address(place: str) -> bool:
    """Whether a place lies in a file system that only Spark reaches."""
    return bool(_SCHEME.match(place)) and not place.startswith("file:")


def local_path(place: str) -> str:
    """A place as a path; those with the scheme `file` are one as well."""
    if is_address(place):
        raise DataError(f"{place}: this has to be a folder that the driver and all executors reach under the same path")
    return unquote(urlsplit(place).path) if place.startswith("file:") else place


def absolute_path(place: str) -> str:
    """The same for driver and tasks, which may work in other folders."""
    return str(Path(local_path(place)).absolute())


def resolved(folder: Path, place: str) -> str:
    """A place in a configuration: a path is relative to the folder of that file."""
    return place if is_address(place) else str(folder / local_path(place))
