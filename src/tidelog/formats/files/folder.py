"""Fact folders, read and written: one file per predicate, named after it, in any format.

File names are predicate names, percent-encoded where necessary, so that `<http://example.org/p>` and `ex:p` have files
and no name can lead out of the folder. A folder named like a file (`edge.csv/`) holds part files, as Spark writes them.
What is written to a folder appears there only when all of it is complete.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import IO, Any, cast
from urllib.parse import unquote

import pyarrow as pa

from tidelog.errors import DataError, ParseError, warn
from tidelog.extras import needing
from tidelog.formats.batch import FactBatch
from tidelog.formats.columns.column_types import checked_types
from tidelog.formats.files import byte_files as files
from tidelog.formats.files.delimited import DelimitedReader
from tidelog.formats.files.dlog import dlog_lines, read_dlog
from tidelog.formats.files.headers import likely_header
from tidelog.formats.files.jsonl import read_json_lines
from tidelog.formats.files.parquet import read_parquet, write_parquet
from tidelog.formats.files.rendering import Columns, delimited_format, json_format
from tidelog.language import resolve_predicate

SEPARATORS = {".csv": ",", ".tsv": "\t", ".facts": "\t"}
READ_SUFFIXES = (*SEPARATORS, ".jsonl", ".nt", ".ttl", ".dlog", ".parquet")
ZIPPED = ".gz"
_TEXTS = ("csv", "tsv", "jsonl", "nt", "dlog")
WRITE_FORMATS = (*_TEXTS, "parquet", *(format + ZIPPED for format in _TEXTS))
# In these formats the facts name their predicates.
TypesByPredicate = Mapping[str, Sequence[str]]
NO_TYPES: TypesByPredicate = MappingProxyType({})

_NAMES_WITHIN = {".nt", ".ttl", ".dlog"}
_LONGEST_NAME = 255  # bytes
_NOT_IN_FILE_NAMES = re.compile(r'^\.|[%/\\<>"|?*\x00-\x1f\x7f]')
_ANY = re.compile(r".", re.DOTALL)


def read_facts(
    folder: str | Path,
    header: bool | None = None,
    on_bytes: files.OnBytes = files.ignore_bytes,
    types: Mapping[str, Sequence[Any]] | None = None,
    declared: TypesByPredicate = NO_TYPES,
) -> Iterator[FactBatch]:
    """The facts of every file of a folder, in batches of bounded size; `on_bytes` is told of each piece read.

    `types` are those of the columns of CSV and TSV files, by predicate; `declared` those of a program's declarations,
    where `types` says nothing; `header` is that of `read_file`.

    Examples:
        >>> from pathlib import Path
        >>> from tidelog.formats import read_facts
        >>> Path("facts").mkdir()
        >>> _ = Path("facts/edge.csv").write_text("a,b\\nb,c\\n")
        >>> _ = Path("facts/node.jsonl").write_text('["a"]\\n')
        >>> tidelog.KnowledgeBase().load(read_facts("facts"))
        <Change: + edge: 2, + node: 1>
    """
    paths = fact_files(folder)
    types_of = types_of_files(paths, types, str(folder))
    for path in paths:
        yield from read_file(path, None, header, on_bytes, types_of.get(path), declared)


def read_file(
    path: str | Path,
    predicate: str | None = None,
    header: bool | None = None,
    on_bytes: files.OnBytes = files.ignore_bytes,
    types: Sequence[Any] | None = None,
    declared: TypesByPredicate = NO_TYPES,
) -> Iterator[FactBatch]:
    """The facts of a file (or folder of part files); unless one is given, the predicate is that of the file's name.

    `header` says whether the first line of a CSV or TSV file names its columns. None means that it does not, with a
    warning where it looks as if it did. `types` are those of the columns of such a file, `declared` those of the
    columns of predicates, where no `types` are given.

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
    elif suffix in _NAMES_WITHIN:
        raise files.data_error(str(path), None, f"the facts of a {suffix} file name their predicates; give none")
    if types is not None:
        types = checked_types(types, str(path))
        if suffix not in SEPARATORS:
            raise files.data_error(str(path), None, "types are given for CSV and TSV files; this one has its own")
    elif suffix in SEPARATORS:
        types = declared.get(predicate)
    if header is None:
        warn_of_header(path)
    for part in _parts(path):
        yield from _read_part(part, _suffix(part) or suffix, predicate, bool(header), types, on_bytes)


def likely_header_of(path: Path) -> str | None:
    """The first line of a CSV or TSV file, or of the first of its part files, if it looks like a header."""
    separator = SEPARATORS.get(_suffix(path) or "")
    found = (likely_header(part, separator) for part in _parts(path)[:1] if separator is not None)
    return next(found, None)


def warn_of_header(path: Path) -> None:
    """Warn of a first line that looks like a header, and is read as a fact."""
    first = likely_header_of(path)
    if first is not None:
        warn(
            f"{path}, line 1: `{first[:60]}` looks like the names of the columns, and is read as a fact; say that "
            "there is a header (--header, header=True) or that there is none (--no-header, header=False)",
            UserWarning,
        )


def types_of_files(
    paths: Sequence[Path], types: Mapping[str, Sequence[Any]] | None, folder: str
) -> dict[Path, Sequence[Any]]:
    """The types of the columns of files, which are given by predicate."""
    found: dict[Path, Sequence[Any]] = {}
    for name, given in (types or {}).items():
        predicate = resolve_predicate(name, {})
        holding = [path for path in paths if _suffix(path) in SEPARATORS and predicate_of_file(path) == predicate]
        if not holding:
            raise files.data_error(folder, None, f"types are given for `{name}`, and no CSV or TSV file is named so")
        found.update(dict.fromkeys(holding, given))
    return found


def _read_part(
    path: Path, suffix: str, predicate: str, header: bool, types: Sequence[str] | None, on_bytes: files.OnBytes
) -> Iterator[FactBatch]:
    if suffix == ".parquet":
        yield from read_parquet(path, predicate, on_bytes)
        return
    with files.open_input(path, on_bytes) as stream:
        if suffix in (".nt", ".ttl"):
            yield from _rdf().read_rdf(stream, path, turtle=suffix == ".ttl")
        elif suffix == ".dlog":
            yield from read_dlog(stream, str(path))
        else:
            for first_line, columns in _rows(stream, suffix, str(path), header, types):
                yield FactBatch(predicate, columns, str(path), first_line)


def _rows(
    stream: files.Readable, suffix: str, source: str, header: bool, types: Sequence[str] | None = None
) -> Iterable[tuple[int, list[pa.Array]]]:
    if suffix == ".jsonl":
        return read_json_lines(stream, source)
    return DelimitedReader(stream, SEPARATORS[suffix], source, header, types)


def is_fact_folder(path: Path) -> bool:
    """Whether a path leads to a folder of fact files, rather than to one file or its parts."""
    return path.is_dir() and _suffix(path) is None


def _rdf() -> ModuleType:
    """The module of RDF, whose parser is a package of its own."""
    with needing("RDF"):
        from tidelog.formats.files import rdf
    return rdf


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
    if not entry.is_symlink():
        return
    with files.io_errors(str(entry)):  # of a link that leads nowhere, or in a circle
        target = Path(os.path.realpath(entry, strict=True))
    if not target.is_relative_to(root.resolve()):
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


def file_of_predicate(predicate: str, format: str, encoded: bool = False) -> str:
    """The name of a predicate's file: the predicate as written, except for characters that file names cannot hold, or
    with every character encoded.
    """
    unfit = _ANY if encoded else _NOT_IN_FILE_NAMES
    name = unfit.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), predicate)
    if len(f"{name}.{format}".encode()) <= _LONGEST_NAME:
        return f"{name}.{format}"
    if f".{format.removesuffix(ZIPPED)}" not in _NAMES_WITHIN:
        raise DataError(f"{predicate[:60]}… is too long for the name of a file; use the format dlog")
    return f"{name[:40]}~{sha256(name.encode()).hexdigest()[:20]}.{format}"


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
    [path] = write_folder(folder, [(predicate, batches)], format)
    return path


def write_folder(
    folder: str | Path, facts: Iterable[tuple[str, Iterable[Columns | FactBatch]]], format: str = "csv"
) -> list[Path]:
    """Write the facts of predicates to their files in a folder. They appear when all of them are complete."""
    if format not in WRITE_FORMATS:
        raise DataError(f"{format!r} is no format for facts; use one of {', '.join(WRITE_FORMATS)}")
    folder = Path(folder)
    written: dict[str, Path] = {}  # by their names without case: on some disks, `P.csv` and `p.csv` are one file
    with files.new_files(folder) as unfinished:
        for predicate, batches in facts:
            name = file_of_predicate(predicate, format)
            if name.casefold() in written:
                name = file_of_predicate(predicate, format, encoded=True)
            written[name.casefold()] = folder / name
            columns = (batch.columns if isinstance(batch, FactBatch) else batch for batch in batches)
            with (unfinished / name).open("xb") as file:
                write_columns(file, predicate, columns, format)
    return list(written.values())


def write_columns(file: IO[bytes], predicate: str, batches: Iterable[Columns], format: str) -> None:
    """Write the facts of a predicate to a file that is open."""
    write = _WRITERS[format.removesuffix(ZIPPED)]
    if not format.endswith(ZIPPED):
        write(file, predicate, batches)
        return
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as zipped:  # the same bytes every time
        write(cast("IO[bytes]", zipped), predicate, batches)


_WRITERS: Mapping[str, Callable[[IO[bytes], str, Iterable[Columns]], object]] = {
    "csv": lambda file, _, batches: file.writelines(delimited_format(",").lines(batches)),
    "tsv": lambda file, _, batches: file.writelines(delimited_format("\t").lines(batches)),
    "jsonl": lambda file, _, batches: file.writelines(json_format().lines(batches)),
    "nt": lambda file, predicate, batches: file.writelines(_rdf().ntriples(predicate, batches)),
    "dlog": lambda file, predicate, batches: file.writelines(dlog_lines(predicate, batches)),
    "parquet": lambda file, _, batches: write_parquet(file, batches),
}
