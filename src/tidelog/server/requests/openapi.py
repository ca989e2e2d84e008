"""The OpenAPI description of what the server answers. `test_openapi.py` holds it against the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.server.problems import MEDIA_TYPE
from tidelog.server.requests.bodies import ARROW, CSV, EVENTS, JSON, JSON_LINES

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}
FLAG: Schema = {"type": "boolean"}
ANY_OBJECT: Schema = {"type": "object"}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def listed(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def record(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None, closed: bool = True) -> Schema:
    """An object with named members."""
    found: Schema = {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
    }
    return found | ({"additionalProperties": False} if closed else {})


def by_name(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


SCHEMAS: dict[str, Schema] = {
    "Value": {
        "description": "A constant: text, number, true, false, an IRI, an RDF literal, or a record, as an array.",
        "anyOf": [
            TEXT,
            NUMBER,
            FLAG,
            record({"iri": TEXT}),
            record({"text": TEXT}, {"language": TEXT, "datatype": TEXT}),
            listed(ref("Value")),
        ],
    },
    "Row": listed(ref("Value")),
    "Rows": listed(ref("Row")),
    "Facts": {
        "description": "Rows by predicate, or facts as a text in the language.",
        "anyOf": [by_name(ref("Rows")), TEXT],
    },
    "Update": record(
        {},
        {
            "add": or_null(ref("Facts")),
            "delete": or_null(ref("Facts")),
            "add_rules": or_null(TEXT),
            "remove_rules": or_null(TEXT),
            "replace_rules": or_null(TEXT),
            "at": or_null({"description": "When it comes: a time, or seconds since 1970.", "anyOf": [TEXT, NUMBER]}),
            "alone": FLAG,
        },
    ),
    "Side": by_name(record({"count": WHOLE, "rows": ref("Rows")})),
    "Change": record(
        {
            "added": ref("Side"),
            "removed": ref("Side"),
            "work": by_name(WHOLE),
            "errors": WHOLE,
            "failures": listed(ANY_OBJECT),
        }
    ),
    "Updated": record(
        {
            "update": WHOLE,
            "change": ref("Change"),
            "together": WHOLE,
            "seconds": NUMBER,
            "repeated": FLAG,
            "warnings": listed(TEXT),
        },
        {"undone": WHOLE},
    ),
    "WhatIf": record(
        {
            "update": WHOLE,
            "change": ref("Change"),
            "impact": or_null(by_name(listed(WHOLE))),
            "rules": or_null(by_name(listed(TEXT))),
            "warnings": listed(TEXT),
        }
    ),
    "Question": record(
        {"query": TEXT},
        {
            "parameters": by_name(ref("Value")),
            "limit": or_null({"type": "integer", "minimum": 1}),
            "cursor": or_null(TEXT),
            "whole": FLAG,
        },
    ),
    "Answers": record(
        {
            "update": WHOLE,
            "variables": listed(TEXT),
            "rows": ref("Rows"),
            "more": FLAG,
            "next": or_null(TEXT),
            "total": or_null(WHOLE),
            "errors": WHOLE,
            "warnings": listed(TEXT),
        }
    ),
    "FactPage": record(
        {
            "update": WHOLE,
            "predicate": TEXT,
            "arity": WHOLE,
            "rows": ref("Rows"),
            "next": or_null(TEXT),
            "total": or_null(WHOLE),
        }
    ),
    "Fact": {
        "description": "A fact as a text, or its predicate and its values.",
        "anyOf": [TEXT, {"type": "array", "prefixItems": [TEXT], "items": ref("Value"), "minItems": 1}],
    },
    "FactBody": record({"fact": ref("Fact")}, {"parameters": by_name(ref("Value")), "limit": {"type": "integer"}}),
    "ChangeBody": record({"fact": ref("Fact")}, {"update": or_null({"type": "integer"})}),
    "CheckBody": record({"text": TEXT}, {"as": {"enum": ["program", "rules", "query", "fact"]}, "replace": FLAG}),
    "Proof": record(
        {
            "fact": TEXT,
            "height": WHOLE,
            "steps": listed(
                record({"fact": TEXT, "rule": or_null(TEXT), "premises": listed(WHOLE), "conditions": listed(TEXT)})
            ),
        }
    ),
    "Explained": record({"update": WHOLE, "fact": TEXT, "holds": FLAG, "proofs": listed(ref("Proof"))}),
    "WhyNot": record(
        {
            "update": WHOLE,
            "fact": TEXT,
            "holds": FLAG,
            "text": TEXT,
            "missing": listed(TEXT),
            "in_the_way": listed(TEXT),
        }
    ),
    "ExplainedChange": record(
        {
            "update": WHOLE,
            "fact": TEXT,
            "came": FLAG,
            "proof": ref("Proof"),
            "facts": listed(TEXT),
            "leaves": listed(TEXT),
            "negations": listed(TEXT),
            "rules": listed(TEXT),
            "why_not": TEXT,
            "text": TEXT,
        }
    ),
    "Mistake": record(
        {"line": WHOLE, "column": WHOLE, "message": TEXT, "hint": TEXT}, {"severity": {"enum": ["error", "warning"]}}
    ),
    "Checked": record({"ok": FLAG, "mistakes": listed(ref("Mistake")), "rules": WHOLE, "facts": WHOLE}),
    "Predicates": record(
        {
            "update": WHOLE,
            "predicates": listed(
                record(
                    {
                        "name": TEXT,
                        "arity": WHOLE,
                        "facts": WHOLE,
                        "explicit": WHOLE,
                        "derived": FLAG,
                        "declared": FLAG,
                        "columns": listed(TEXT),
                        "text": TEXT,
                    }
                )
            ),
            "prefixes": by_name(TEXT),
        }
    ),
    "Rules": record(
        {
            "update": WHOLE,
            "text": TEXT,
            "rules": listed(
                record(
                    {
                        "number": WHOLE,
                        "text": TEXT,
                        "head": TEXT,
                        "facts": WHOLE,
                        "applications": WHOLE,
                        "seconds": NUMBER,
                    }
                )
            ),
            "missing_functions": listed(TEXT),
            "prefixes": by_name(TEXT),
            "undo": or_null(record({"update": WHOLE, "added": listed(TEXT), "removed": listed(TEXT)})),
        }
    ),
    "Graph": record(
        {
            "update": WHOLE,
            "hyper_nodes": listed(
                record(
                    {
                        "id": WHOLE,
                        "rules": listed(TEXT),
                        "numbers": listed(WHOLE),
                        "predicates": listed(TEXT),
                        "reads": listed(TEXT),
                        "recursive": FLAG,
                        "stratum": WHOLE,
                        "facts": WHOLE,
                        "seconds": NUMBER,
                        "applications": WHOLE,
                    }
                )
            ),
            "edges": listed(record({"source": WHOLE, "target": WHOLE, "predicates": listed(TEXT), "strict": FLAG})),
            "predicates": listed(record({"name": TEXT, "facts": WHOLE, "derived": FLAG})),
        }
    ),
    "Statistics": record({"update": WHOLE, "facts": WHOLE, "explicit": WHOLE, "version": TEXT}, closed=False),
    "Health": record({"status": {"const": "ok"}, "update": WHOLE}),
    "Session": record({"roles": listed(TEXT), "predicates": or_null(listed(TEXT)), "tokens": FLAG, "version": TEXT}),
    "Saved": record({"update": WHOLE}),
    "Problem": record(
        {"type": TEXT, "title": TEXT, "status": WHOLE, "detail": TEXT},
        {
            "mistakes": listed(ref("Mistake")),
            "limit": record({"name": TEXT}, {"value": NUMBER}),
        },
    ),
}


def _problems(*statuses: int) -> dict[str, Any]:
    return {
        str(status): {"description": "a problem (RFC 9457)", "content": {MEDIA_TYPE: {"schema": ref("Problem")}}}
        for status in sorted({401, 403, *statuses})
    }


def _answer(schema: str, *others: str) -> dict[str, Any]:
    """The content of an answer: JSON, and other types that nothing is said about."""
    return {JSON: {"schema": ref(schema)}, **{kind: {} for kind in others}}


def _operation(
    name: str,
    told: str,
    content: Mapping[str, Any] | None,
    *statuses: int,
    body: str | None = None,
    parameters: tuple[Schema, ...] = (),
    status: int = 200,
    more_bodies: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": name,
        "summary": told,
        "responses": {
            str(status): {"description": "done", **({"content": dict(content)} if content else {})},
            **_problems(*statuses, *((400, 413, 415) if body else ())),
        },
    }
    if body is not None:
        found["requestBody"] = {
            "required": True,
            "content": {JSON: {"schema": ref(body)}, **(more_bodies or {})},
        }
    if parameters:
        found["parameters"] = list(parameters)
    return found


def _parameter(name: str, schema: Schema, where: str = "query", required: bool = False, told: str = "") -> Schema:
    return {"name": name, "in": where, "required": required, "schema": schema, "description": told}


_ROWS = _parameter("rows", {"type": "integer", "minimum": 0, "maximum": 10_000}, told="facts listed of each predicate")
_KEY = _parameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
    "header",
    told="a retry with the same key is applied once",
)
_LAST = (
    _parameter("Last-Event-ID", {"type": "string", "pattern": "^[0-9]{1,18}$"}, "header", told="the last known update"),
    _parameter("last_event_id", {"type": "string", "pattern": "^[0-9]{1,18}$"}, told="the same"),
)
_BINARY: Schema = {"schema": {"type": "string", "format": "binary"}}

_FACTS = (
    _parameter("predicate", {"type": "string", "minLength": 1}, "path", required=True),
    _parameter("limit", {"type": "integer", "minimum": 1}),
    _parameter("cursor", TEXT, told="`next` of the page before"),
    _parameter("explicit", {"enum": ["true", "false"]}, told="explicit facts alone"),
    _parameter("filter", TEXT, told="rows with a value that contains this text"),
    _parameter("where", TEXT, told='values of columns, counted from 0, as JSON: {"0": "a"}'),
)

PATHS: dict[str, Any] = {
    "/query": {
        "post": _operation(
            "query",
            "the first answers of a query, or a page of the whole",
            _answer("Answers", JSON_LINES, CSV, ARROW),
            406,
            410,
            422,
            body="Question",
        )
    },
    "/facts/{predicate}": {
        "get": _operation(
            "facts",
            "a page of the facts of a predicate",
            _answer("FactPage", JSON_LINES, CSV, ARROW),
            400,
            404,
            406,
            410,
            422,
            503,
            parameters=_FACTS,
        )
    },
    "/predicates": {"get": _operation("predicates", "all predicates", _answer("Predicates"))},
    "/rules": {"get": _operation("rules", "all rules", _answer("Rules", "text/plain"), 406)},
    "/graph": {
        "get": _operation(
            "graph",
            "the hyper rule dependency graph",
            _answer("Graph", "image/svg+xml", "text/plain"),
            400,
            406,
            parameters=(_parameter("format", {"enum": ["json", "svg", "dot", "mermaid"]}),),
        )
    },
    "/statistics": {"get": _operation("statistics", "what there is and what was done", _answer("Statistics"))},
    "/health": {"get": _operation("health", "whether the server is well", _answer("Health"), 503)},
    "/metrics": {"get": _operation("metrics", "counts in the text format of Prometheus", {"text/plain": {}})},
    "/session": {
        "get": _operation("session", "what the caller may do", _answer("Session")),
        "delete": _operation("log_out", "forget the token of a browser", None, status=204),
    },
    "/explain": {"post": _operation("explain", "proofs of a fact", _answer("Explained"), 422, body="FactBody")},
    "/why-not": {"post": _operation("why_not", "what a fact lacks", _answer("WhyNot"), 422, body="FactBody")},
    "/what-if": {
        "post": _operation(
            "what_if",
            "what an update would change",
            _answer("WhatIf"),
            422,
            503,
            body="Update",
            parameters=(_ROWS,),
        )
    },
    "/explain-change": {
        "post": _operation(
            "explain_change",
            "why a fact came or went",
            _answer("ExplainedChange"),
            404,
            422,
            503,
            body="ChangeBody",
        )
    },
    "/check": {"post": _operation("check", "what is wrong with a text", _answer("Checked"), 422, body="CheckBody")},
    "/update": {
        "post": _operation(
            "update",
            "change facts and rules, all or nothing",
            _answer("Updated"),
            409,
            422,
            503,
            507,
            body="Update",
            parameters=(
                _ROWS,
                _KEY,
                _parameter("predicate", TEXT, told="of an Arrow body"),
                _parameter("action", {"enum": ["add", "delete"]}, told="of an Arrow body"),
            ),
            more_bodies={JSON_LINES: _BINARY, ARROW: _BINARY},
        )
    },
    "/undo": {"post": _operation("undo", "take back the last change of rules", _answer("Updated"), 409, 422, 503, 507)},
    "/save": {"post": _operation("save", "write a snapshot, and empty the journal", _answer("Saved"), 503, 507)},
    "/subscribe": {
        "get": _operation(
            "subscribe",
            "the answers of a query, and what comes and goes, as events",
            {EVENTS: {"schema": TEXT}},
            400,
            406,
            422,
            429,
            503,
            parameters=(
                _parameter("query", TEXT, required=True),
                _parameter("parameters", TEXT, told="values of parameters as a JSON object; or param.NAME=text"),
                *_LAST,
            ),
        )
    },
    "/updates": {
        "get": _operation(
            "updates", "commits as events", {EVENTS: {"schema": TEXT}}, 400, 406, 429, 503, parameters=_LAST
        )
    },
}


def description(version: str) -> dict[str, Any]:
    """The whole description."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tidelog",
            "version": version,
            "description": "A knowledge base whose conclusions stay true while facts and rules change.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": PATHS,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }
