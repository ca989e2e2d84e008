"""Pages of rows in the formats that clients accept: JSON, JSON Lines, CSV, Arrow."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from tidelog.extras import needing
from tidelog.server.listing import encoded_rows, without_ends
from tidelog.server.questions.pages import Page
from tidelog.server.requests.bodies import ARROW, CSV, JSON, JSON_LINES

FORMATS = (JSON, JSON_LINES, CSV, ARROW)


def response_of(page: Page, kind: str, members: dict[str, Any]) -> Response:
    """A page in a format. `members` are those of the JSON object beside its rows."""
    if kind == JSON:
        content = {"update": page.update, **members, "rows": encoded_rows(page.rows)}
        content |= {"next": page.following, "total": page.total}
        return Response(msgspec.json.encode(content), media_type=JSON)
    headers = {"Tidelog-Update": str(page.update), "Tidelog-More": "true" if page.more else "false"}
    if page.following is not None:
        headers["Tidelog-Next"] = page.following
    if page.total is not None:
        headers["Tidelog-Total"] = str(page.total)
    body = {JSON_LINES: _lines, CSV: _csv, ARROW: _arrow}[kind](page)
    return Response(body, headers=headers, media_type="text/csv; charset=utf-8" if kind == CSV else kind)


def _lines(page: Page) -> bytes:
    return without_ends(b"".join(msgspec.json.encode(row) + b"\n" for row in encoded_rows(page.rows)))


def _csv(page: Page) -> bytes:
    """As `kb.export` writes it, so that `kb.load` reads the same constants; the first line names the columns."""
    with needing("CSV", "arrow"):
        from tidelog.formats.files.rendering import delimited_format
        from tidelog.store.arrow_columns import decode_arrow
    cells, terms = page.rows
    head = ",".join(page.names).encode() + b"\n"
    if not cells.shape[1]:
        return head + b"()\n" * len(cells)
    columns = [decode_arrow(terms, column) for column in cells.T]
    return head + b"".join(delimited_format(",").lines([columns]))


def _arrow(page: Page) -> bytes:
    with needing("Arrow", "arrow"):
        import pyarrow as pa

        from tidelog.facts.frames import arrow_table
    table = arrow_table(page.names, page.rows)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found
