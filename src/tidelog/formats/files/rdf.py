"""RDF, in and out: N-Triples and Turtle.

A triple is the fact `predicate(subject, object)` under the predicate's IRI, and `s rdf:type C` is `C(s)`. Literals
whose text fits a native type become constants of it (`xsd:string`, integers, `xsd:double`, `xsd:float`,
`xsd:decimal`, `xsd:boolean`); all others keep their language or datatype. A blank node is local to its file: it
becomes the IRI `_:FILE.label`, where FILE is a checksum of the file's name; one without a label becomes `_:FILE-1`,
`_:FILE-2`, … in the order of the file, so that a file reads the same every time. IRIs are not validated, because data
in the wild breaks the rules for them.
"""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, cast

import pyoxigraph as ox

from tidelog.errors import DataError
from tidelog.formats.batch import BOOL, FLOAT, INT, IRI_KIND, FactBatch, parts
from tidelog.formats.columns.cells import IRI_UNSAFE
from tidelog.formats.columns.tables import columns_of_rows
from tidelog.formats.files.byte_files import LONGEST_ROW_BYTES, Readable, data_error
from tidelog.formats.files.rendering import (
    CONSTANT_RENDERERS,
    Columns,
    Renderer,
    RowFormat,
    between,
    by_cell_where,
    floats,
    plain,
)
from tidelog.language.names import bracketed, resolve_predicate
from tidelog.values import IRI, XSD, Literal, Value, canonical

RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_TRIPLES_AT_ONCE = 1 << 17
_BYTES_AT_ONCE = 32 << 20
_INTEGER_TYPES = (
    "byte int long short unsignedByte unsignedInt unsignedLong unsignedShort "
    "negativeInteger nonNegativeInteger nonPositiveInteger positiveInteger"
)
# Datatypes whose values are those of another one.
_SAME_VALUES = {XSD + name: XSD + "integer" for name in _INTEGER_TYPES.split()} | {XSD + "float": XSD + "double"}
_NO_LABEL = re.compile(r"[0-9a-f]{20,32}")
_LABEL = r"^_:[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?$"

Row = tuple[Value, ...]


def read_rdf(stream: Readable, path: Path, turtle: bool) -> Iterator[FactBatch]:
    """The facts of an RDF file, in batches by predicate."""
    nodes = _Nodes(path)
    facts: defaultdict[tuple[str, int], list[Row]] = defaultdict(list)
    counted = _Counted(stream, str(path))
    number = 0
    for triple in _triples(counted, path, turtle):
        counted.since_triple = 0
        try:
            predicate, row = nodes.fact(triple)
        except DataError as error:
            raise data_error(str(path), None, str(error)) from None
        facts[predicate, len(row)].append(row)
        number += 1
        if number == _TRIPLES_AT_ONCE or counted.bytes > _BYTES_AT_ONCE:
            yield from _batches(facts, str(path))
            facts.clear()
            number = counted.bytes = 0
    yield from _batches(facts, str(path))


class _Counted:
    """A file that counts what was read from it: triples may be few and long, and the parser would wait forever for the
    end of one.
    """

    def __init__(self, stream: Readable, source: str) -> None:
        self._stream = stream
        self._source = source
        self.bytes = 0
        self.since_triple = 0

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        self.bytes += len(data)
        self.since_triple += len(data)
        if self.since_triple > LONGEST_ROW_BYTES:
            limit = LONGEST_ROW_BYTES >> 20
            raise data_error(self._source, None, f"{limit} MiB without a triple; is a quote left open? Is this RDF?")
        return data


def _triples(stream: Readable, path: Path, turtle: bool) -> Iterator[Any]:
    format_ = ox.RdfFormat.TURTLE if turtle else ox.RdfFormat.N_TRIPLES
    try:
        yield from ox.parse(cast("IO[bytes]", stream), format_, lenient=True)
    except MemoryError as error:
        if "maximal size" not in str(error):
            raise
        raise data_error(str(path), None, "a term of more than 16 MiB; is a quote left open? Is this RDF?") from None
    except SyntaxError as error:
        raise data_error(str(path), error.lineno, f"not RDF: {error.msg}; mend the line") from None


def _batches(facts: dict[tuple[str, int], list[Row]], source: str) -> Iterator[FactBatch]:
    for (predicate, _), rows in facts.items():
        columns = columns_of_rows(rows, lambda row: source)
        if columns is not None:
            yield FactBatch(bracketed(predicate), columns, source, 1)


class _Nodes:
    """Turns the nodes of one file into constants."""

    def __init__(self, path: Path) -> None:
        self._file = f"{zlib.crc32(path.name.encode(errors='surrogateescape')):08x}"
        self._unlabelled: dict[str, int] = {}

    def fact(self, triple: Any) -> tuple[str, Row]:
        subject, predicate, object_ = triple.subject, triple.predicate.value, triple.object
        if predicate == RDF_TYPE and type(object_) is ox.NamedNode:
            return object_.value, (self.constant(subject),)
        return predicate, (self.constant(subject), self.constant(object_))

    def constant(self, node: Any) -> Value:
        kind = type(node)
        if kind is ox.NamedNode:
            return IRI(node.value)
        if kind is ox.Literal:
            return _literal_value(node)
        if kind is not ox.BlankNode:
            raise DataError(f"{node} is a triple, no constant; leave such statements out")
        if not _NO_LABEL.fullmatch(node.value):
            return IRI(f"_:{self._file}.{node.value}")
        return IRI(f"_:{self._file}-{self._unlabelled.setdefault(node.value, len(self._unlabelled) + 1)}")


def _literal_value(node: Any) -> Value:
    if node.language:
        direction = f"--{node.direction}" if node.direction else ""
        return Literal(node.value, language=node.language + direction)
    datatype = node.datatype.value
    value = canonical(Literal(node.value, _SAME_VALUES.get(datatype, datatype)))
    return Literal(node.value, datatype) if isinstance(value, Literal) else value


def ntriples(predicate: str, batches: Iterable[Columns]) -> Iterator[bytes]:
    """The facts of a predicate as N-Triples."""
    if not (predicate.startswith("<") and predicate.endswith(">")):
        raise DataError(f"{predicate} cannot be N-Triples: its name is no IRI; use another format")
    name = resolve_predicate(predicate, {})
    formats = {1: _rows(" ", f" <{RDF_TYPE}> {name} .\n"), 2: _rows(f" {name} ", " .\n")}
    for columns in batches:
        if len(columns) not in (1, 2) or any(part.kind != IRI_KIND for part in parts(columns[0])):
            raise DataError(f"{predicate} cannot be N-Triples: those have an IRI as subject and at most one object")
        yield from formats[len(columns)].lines([columns])


def _rows(separator: str, closing: str) -> RowFormat:
    def typed(name: str, render: Renderer = plain) -> Renderer:
        return lambda cells: between('"', f'"^^<{XSD}{name}>')(render(cells))

    renderers = {
        **CONSTANT_RENDERERS,
        INT: typed("integer"),
        FLOAT: typed("double", floats({"inf": "INF", "-inf": "-INF", "nan": "NaN"})),
        BOOL: typed("boolean"),
        IRI_KIND: by_cell_where(
            rf"{IRI_UNSAFE}|{_LABEL}", lambda iri: iri if re.match(_LABEL, iri) else bracketed(iri), between("<", ">")
        ),
    }
    return RowFormat(renderers, opening="", separator=separator, closing=closing, nullary="")
