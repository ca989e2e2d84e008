"""Fact folders, read and written: one file per predicate, named after it, in any format.

File names are predicate names, percent-encoded where necessary, so that `<http://example.org/p>` and `ex:p` have files
and no name can lead out of the folder. A folder named like a file (`edge.csv/`) holds part files, as Spark writes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO
from urllib.parse import unquote

import pyarrow as pa

from tidelog.errors import DataError, ParseError, warn
from tidelog.formats import byte_files as files
from tidelog.formats.batch import FactBatch
from tidelog.formats.delimited import DelimitedReader
from tidelog.formats.dlog import dlog_lines, read_dlog
from tidelog.formats.jsonl import read_json_lines
from tidelog.formats.parquet import read_parquet, write_parquet
from tidelog.formats.rdf import ntriples, read_rdf
from tidelog.formats.rendering import Columns, delimited_format, json_format
from tidelog.language import resolve_predicate

SEPARATORS = {".csv": ",", ".tsv": "\t", ".facts": "\t"}
READ_SUFFIXES = (*SEPARATORS, ".jsonl", ".nt", ".ttl", ".dlog", ".parquet")
WRITE_FORMATS = ("csv", "tsv", "parquet", "jsonl", "nt", "dlog")
# In these formats the facts name their predicates.
_NAMES_WITHIN = {".nt", ".ttl", ".dlog"}
_NOT_IN_FILE_NAMES = re.compile(r'^\.|[%/\\<>"|?*\x00-\x1f\x7f]')


def read_facts(
    folder: str | Path, header: bool = False, on_bytes: files.OnBytes = files.ignore_bytes
) -> Iterator[FactBatch]:
    """The facts of every file of a folder, in batches of bounded size; `on_bytes` is told of each piece read.

    Examples:
        >>> from pathlib import Path
        >>> from tidelog.formats import read_facts
        >>> Path("facts").mkdir()
        >>> _ = Path("facts/edge.csv").write_text("a,b\\nb,c\\n")
        >>> _ = Path("facts/node.jsonl").write_text('["a"]\\n')
        >>> tidelog.KnowledgeBase().load(read_facts("facts"))
        <Change: + edge: 2, + node: 1>
    """
    for path in fact_files(folder):
        yield from read_file(path, header=header, on_bytes=on_bytes)


def read_file(
    path: str | Path, predicate: str | None = None, header: bool = False, on_bytes: files.OnBytes = files.ignore_bytes
) -> Iterator[FactBatch]:
    """The facts of a file (or folder of part files); unless one is given, the predicate is that of the file's name.

    Examples:
        >>> from pathlib import Path
        >>> from tidelog.formats import read_file
        >>> _ = Path("list.csv").write_text("from,to\\na,b\\n")
        >>> [(batch.predicate, batch.rows) for batch in read_file("list.csv", predicate="edge", header=True)]
        [('edge', 1)]
    """
    path = Path(path)
    suffix = _suffix(path)
    if suffix is None:
        raise files.data_error(str(path), None, f"the format is not known; name the file {' or '.join(READ_SUFFIXES)}")
    if predicate is None:
        predicate = path.name if suffix in _NAMES_WITHIN else predicate_of_file(path)
    for part in _parts(path):
        yield from _read_part(part, _suffix(part) or suffix, predicate, header, on_bytes)


def _read_part(path: Path, suffix: str, predicate: str, header: bool, on_bytes: files.OnBytes) -> Iterator[FactBatch]:
    if suffix == ".parquet":
        yield from read_parquet(path, predicate, on_bytes)
        return
    with files.open_input(path, on_bytes) as stream:
        if suffix in (".nt", ".ttl"):
            yield from read_rdf(stream, path, turtle=suffix == ".ttl")
        elif suffix == ".dlog":
            yield from read_dlog(stream, str(path))
        else:
            for first_line, columns in _rows(stream, suffix, str(path), header):
                yield FactBatch(predicate, columns, str(path), first_line)


def _rows(stream: files.Readable, suffix: str, source: str, header: bool) -> Iterable[tuple[int, list[pa.Array]]]:
    if suffix == ".jsonl":
        return read_json_lines(stream, source)
    return DelimitedReader(stream, SEPARATORS[suffix], source, header)


def fact_files(folder: str | Path) -> list[Path]:
    """The files of a folder that hold facts, by name; there is a warning for each of the others."""
    found, others = _entries(Path(folder))
    for entry in others:
        warn(f"{entry}: skipped, because its name does not end in {', '.join(READ_SUFFIXES)}", UserWarning)
    return found


def _entries(root: Path) -> tuple[list[Path], list[Path]]:
    """The entries of a folder: the files with facts, and all others that are not hidden."""
    with files.io_errors(str(root)):
        if not root.is_dir():
            what = "a file; give the folder it lies in" if root.exists() else "no such folder; check the path"
            raise files.data_error(str(root), None, what)
        entries = sorted(entry for entry in root.iterdir() if not entry.name.startswith("."))
    found = [entry for entry in entries if _suffix(entry) is not None]
    for entry in found:
        _refuse_outside(entry, root)
    return found, [entry for entry in entries if _suffix(entry) is None]


def total_bytes(folder: str | Path) -> int:
    """The size of all that `read_facts` will read, to show its progress.

    Examples:
        >>> from pathlib import Path
        >>> from tidelog.formats import total_bytes
        >>> Path("folder_of_facts").mkdir()
        >>> _ = Path("folder_of_facts/edge.csv").write_text("a,b\\n")
        >>> total_bytes("folder_of_facts")
        4
    """
    with files.io_errors(str(folder)):
        return sum(part.stat().st_size for path in _entries(Path(folder))[0] for part in _parts(path))


def _parts(path: Path) -> list[Path]:
    """A file, or the part files in a folder of that name."""
    with files.io_errors(str(path)):
        if not path.is_dir():
            return [path]
        found = sorted(entry for entry in path.iterdir() if not entry.name.startswith((".", "_")))
        for entry in found:
            _refuse_outside(entry, path)
        return found


def _refuse_outside(entry: Path, root: Path) -> None:
    if entry.is_symlink() and not entry.resolve().is_relative_to(root.resolve()):
        raise files.data_error(str(entry), None, "a link that leads out of the folder; copy the file into the folder")


def _suffix(path: Path) -> str | None:
    """The suffix that tells the format, without `.gz`."""
    suffix = Path(path.stem).suffix if path.suffix == ".gz" and not path.name.endswith(".parquet.gz") else path.suffix
    return suffix if suffix in READ_SUFFIXES else None


def predicate_of_file(path: Path) -> str:
    """The predicate that a file is named after."""
    name = path.name.removesuffix(".gz")
    name = name.removesuffix(Path(name).suffix)
    try:
        return resolve_predicate(unquote(name, errors="strict"), {})
    except (ParseError, ValueError):
        reason = f"{name!r} is not the name of a predicate; name the file after its predicate, such as edge.csv"
        raise files.data_error(str(path), None, reason) from None


def file_of_predicate(predicate: str, format: str) -> str:
    """The name of a predicate's file: the predicate as written, except for characters that file names cannot hold."""
    return _NOT_IN_FILE_NAMES.sub(lambda found: f"%{ord(found[0]):02X}", predicate) + "." + format


def write_facts(
    folder: str | Path, predicate: str, batches: Iterable[Columns | FactBatch], format: str = "csv"
) -> Path:
    """Write the facts of a predicate to its file in a folder. The file appears only when it is complete.

    Examples:
        >>> from tidelog.formats import write_facts
        >>> edges = tidelog.KnowledgeBase("edge(a, b).").facts("edge").to_arrow()
        >>> path = write_facts(".", "edge", (batch.columns for batch in edges.to_batches()), format="csv")
        >>> path.read_text()
        'a,b\\n'
    """
    if format not in _WRITERS:
        raise DataError(f"{format!r} is no format for facts; use one of {', '.join(WRITE_FORMATS)}")
    path = Path(folder) / file_of_predicate(predicate, format)
    columns = (batch.columns if isinstance(batch, FactBatch) else batch for batch in batches)
    with files.open_output(path) as file:
        _WRITERS[format](file, predicate, columns)
    return path


_WRITERS: Mapping[str, Callable[[IO[bytes], str, Iterable[Columns]], object]] = {
    "csv": lambda file, _, batches: file.writelines(delimited_format(",").lines(batches)),
    "tsv": lambda file, _, batches: file.writelines(delimited_format("\t").lines(batches)),
    "jsonl": lambda file, _, batches: file.writelines(json_format().lines(batches)),
    "nt": lambda file, predicate, batches: file.writelines(ntriples(predicate, batches)),
    "dlog": lambda file, predicate, batches: file.writelines(dlog_lines(predicate, batches)),
    "parquet": lambda file, _, batches: write_parquet(file, batches),
}
