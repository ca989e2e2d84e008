"""Questions: what clients ask that changes nothing. Each is asked in a thread of its own, beside the updates."""

from __future__ import annotations

import base64
import binascii
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from tidelog.errors import DataError, TidelogError, warnings_collected
from tidelog.facts.questions import fact_of, query_of
from tidelog.facts.reading import Place
from tidelog.facts.results import Answers, Encoded
from tidelog.formats.jsonl import value_from_json
from tidelog.language import parse_query, render
from tidelog.language.syntax import Query, body_atoms
from tidelog.live.knowledge import Knowledge
from tidelog.proofs.failure import WhyNot
from tidelog.proofs.proof import Proof
from tidelog.server import problems
from tidelog.server.store import ServedStore
from tidelog.server.tokens import Caller
from tidelog.values import Value

# Answers that are kept for those who turn a page, and rows of all of them together.
MOST_KEPT = 64
MOST_ROWS_KEPT = 4_000_000

# Facts that one request looks through for a text.
MOST_SEARCHED = 200_000


class Page(NamedTuple):
    """Some rows of an answer, and where the rest is."""

    update: int
    names: tuple[str, ...]
    rows: Encoded
    following: str | None
    total: int | None
    errors: int = 0
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """Answers whose first page has been given."""

    update: int
    answers: Answers
    asked: str


class Pages:
    """Answers of which there is more to come, for as long as there is room: then the pages of one answer are of one
    state, whatever is updated meanwhile.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._rows = 0
        self._lock = threading.Lock()

    def keep(self, kept: Kept) -> str:
        """Keep answers; the name by which they are found."""
        name = secrets.token_urlsafe(9)
        with self._lock:
            self._kept[name] = kept
            self._rows += len(kept.answers)
            while len(self._kept) > MOST_KEPT or (self._rows > MOST_ROWS_KEPT and len(self._kept) > 1):
                _, gone = self._kept.popitem(last=False)
                self._rows -= len(gone.answers)
        return name

    def find(self, name: str) -> Kept | None:
        with self._lock:
            found = self._kept.get(name)
            if found is not None:
                self._kept.move_to_end(name)
            return found


def cursor_of(*parts: Any) -> str:
    """A place in an answer as a text that means nothing to clients."""
    return base64.urlsafe_b64encode(msgspec.json.encode(parts)).decode().rstrip("=")


def parts_of(cursor: str, kinds: tuple[type, ...]) -> list[Any]:
    """What a cursor was made of."""
    try:
        parts = msgspec.json.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error, msgspec.DecodeError):
        parts = None
    if (
        not isinstance(parts, list)
        or tuple(map(type, parts)) != kinds
        or any(type(part) is int and not 0 <= part < 1 << 62 for part in parts)
    ):
        raise problems.bad_request("this is no cursor of such an answer; take the `next` of the page before")
    return parts


def values_of(parameters: Mapping[str, Any] | None) -> dict[str, Value]:
    """The values of parameters, from JSON."""
    found: dict[str, Value] = {}
    for name, value in (parameters or {}).items():
        try:
            found[name] = value_from_json(value)
        except DataError as problem:
            raise DataError(f"the parameter `{name}` is {problem}") from None
    return found


class Questions:
    """Answers what clients ask. `caller` is who asks: some may read some predicates alone."""

    def __init__(self, store: ServedStore) -> None:
        self._store = store
        self._kb = store.kb
        self._knowledge: Knowledge = store.knowledge
        self._pages = Pages()

    # --- queries ------------------------------------------------------------------------------------------------------

    def query(
        self, caller: Caller, text: str, parameters: Mapping[str, Any] | None, limit: int, cursor: str | None = None
    ) -> Page:
        """A page of the answers of a query."""
        values = values_of(parameters)
        self.check_readable(caller, text)
        name, start = parts_of(cursor, (str, int)) if cursor else ("", 0)
        asked = msgspec.json.encode((text, sorted((parameters or {}).items()))).decode()
        kept = self._pages.find(name) if name else None
        if kept is not None and kept.asked != asked:
            raise problems.bad_request("the cursor is of another query")
        warnings: list[str] = []
        if kept is None:
            with warnings_collected() as warnings:
                version, answers = self._knowledge.query_at(text, values)
            kept = Kept(self._store.number(version), answers, asked)
            name = ""
        answers, total = kept.answers, len(kept.answers)
        following = None
        if start + limit < total:
            following = cursor_of(name or self._pages.keep(kept), start + limit)
        encoded = answers._encoded()
        rows = Encoded(encoded.cells[start : start + limit], encoded.terms)
        return Page(kept.update, answers.variables, rows, following, total, int(answers.errors), tuple(warnings))

    def check_readable(self, caller: Caller, text: str) -> None:
        """Refuse a query about what somebody may not read."""
        if caller.predicates is not None:
            query: Query = parse_query(text, self._knowledge.catalogue.prefixes)
            self.check_predicates(caller, {atom.predicate for atom in body_atoms(query)})

    def check_predicates(self, caller: Caller, predicates: set[str]) -> None:
        """Refuse predicates, as the engine names them, that somebody may not read."""
        if caller.predicates is None:
            return
        catalogue = self._knowledge.catalogue
        allowed = {catalogue.resolve(name) for name in caller.predicates}
        for predicate in sorted(predicates - allowed):
            raise problems.forbidden(f"this token may not read `{catalogue.display(predicate)}`")

    def checked_query(self, caller: Caller, text: str, parameters: Mapping[str, Any] | None) -> dict[str, Value]:
        """Refuse a query that cannot be asked; the values of its parameters."""
        values = values_of(parameters)
        self.check_readable(caller, text)
        with warnings_collected():
            query_of(text, values, self._knowledge.catalogue, self._knowledge.functions.keys())
        return values

    # --- facts --------------------------------------------------------------------------------------------------------

    def facts(
        self,
        caller: Caller,
        name: str,
        limit: int,
        cursor: str | None,
        explicit: bool = False,
        containing: str = "",
        where: Mapping[int, Any] | None = None,
    ) -> Page:
        """A page of the facts of a predicate."""
        catalogue = self._knowledge.catalogue
        predicate = catalogue.resolve(name)
        self.check_predicates(caller, {predicate})
        arity = catalogue.arities.get(predicate)
        if arity is None:
            raise problems.not_found(f"there is no predicate `{name}`")
        if where:
            return self._facts_where(caller, name, arity, limit, cursor, where, explicit)
        first, second = parts_of(cursor, (int, int)) if cursor else (0, 0)
        place: Place | None = (first, second)
        rows: list[Any] = []
        terms = self._knowledge.engine.store.terms.table
        version = self._knowledge.version
        left = max(limit, MOST_SEARCHED) if containing else limit
        cells: list[Any] = []
        while place is not None and left > 0 and len(rows) < limit:
            start = place
            size = min(left, limit if not containing else 4096)
            version, encoded, place = self._page(predicate, explicit, start, size)
            left -= max(len(encoded.cells), 1)
            if containing:
                found = [number for number, row in enumerate(encoded.rows()) if _contains(row, containing.casefold())]
                encoded = Encoded(encoded.cells[found], encoded.terms)
            terms = encoded.terms
            cells.append(encoded.cells)
            rows.extend(encoded.cells)
        import numpy as np

        joined = np.concatenate(cells) if cells else np.empty((0, arity), np.int32)
        following = None if place is None else cursor_of(*place)
        total = None if containing else self._count(predicate, explicit)
        names = tuple(f"c{column}" for column in range(arity))
        return Page(self._store.number(version), names, Encoded(joined, terms), following, total)

    def _page(self, predicate: str, explicit: bool, place: Place, size: int) -> tuple[int, Encoded, Place | None]:
        knowledge = self._knowledge
        return knowledge.lock.read(
            lambda: (knowledge.version, *knowledge.reader.page(predicate, explicit, place, size))
        )

    def _count(self, predicate: str, explicit: bool) -> int:
        return self._knowledge.lock.read(lambda: self._knowledge.reader.count(predicate, explicit))

    def _facts_where(
        self,
        caller: Caller,
        name: str,
        arity: int,
        limit: int,
        cursor: str | None,
        where: Mapping[int, Any],
        explicit: bool,
    ) -> Page:
        """Facts with given values in some columns: a query, which finds them by an index."""
        if explicit:
            raise problems.bad_request("`where` and `explicit` cannot be combined; ask for one of them")
        if not all(0 <= column < arity for column in where):
            raise problems.bad_request(f"`{name}` has {arity} columns, counted from 0")
        arguments = [f"$w{column}" if column in where else f"C{column}" for column in range(arity)]
        text = f"{name}({', '.join(arguments)})"
        values = {f"w{column}": value for column, value in where.items()}
        page = self.query(caller, text, values, limit, cursor)
        return self._whole_rows(page, arity, where)

    def _whole_rows(self, page: Page, arity: int, where: Mapping[int, Any]) -> Page:
        """The rows of a query with its constants in their columns."""
        import numpy as np

        given = values_of({str(column): value for column, value in where.items()})
        knowledge = self._knowledge
        with knowledge.lock:
            terms = knowledge.engine.store.terms
            if page.rows.terms is not terms.table:
                raise problems.Problem(503, "busy", "Ask again", "the facts were rearranged meanwhile; ask again")
            cells = np.empty((len(page.rows.cells), arity), np.int32)
            free = [column for column in range(arity) if column not in where]
            cells[:, free] = page.rows.cells
            if len(cells):
                for column in where:
                    cells[:, column] = terms.encode_values([given[str(column)]])[0]
        return page._replace(rows=Encoded(cells, page.rows.terms), names=tuple(f"c{n}" for n in range(arity)))

    # --- what there is ------------------------------------------------------------------------------------------------

    def predicates(self, caller: Caller) -> dict[str, Any]:
        """All predicates, with the numbers of their facts."""
        knowledge = self._knowledge

        def look() -> dict[str, Any]:
            catalogue, reader = knowledge.catalogue, knowledge.reader
            heads = {rule.head.predicate for rule in knowledge.engine.graph.rules.values()}
            found = []
            for name in reader.predicates():
                predicate = catalogue.resolve(name)
                found.append(
                    {
                        "name": name,
                        "arity": catalogue.arities.get(predicate, 0),
                        "facts": reader.count(predicate),
                        "explicit": reader.count(predicate, explicit=True),
                        "derived": predicate in heads,
                        "declared": predicate in catalogue.declared,
                    }
                )
            return {"update": self._store.number(), "predicates": found}

        found = knowledge.lock.read(look)
        if caller.predicates is not None:
            allowed = {knowledge.catalogue.display(knowledge.catalogue.resolve(name)) for name in caller.predicates}
            found["predicates"] = [item for item in found["predicates"] if item["name"] in allowed]
        return found

    def rules(self) -> dict[str, Any]:
        """The rules, with what each has done, and the text of the program."""
        kb, knowledge = self._kb, self._knowledge
        with kb._lock:
            numbers = knowledge.engine.graph.rules
            listed = [
                {
                    "number": number,
                    "text": item.rule,
                    "head": knowledge.catalogue.display(rule.head.predicate),
                    "facts": item.facts,
                    "applications": item.applications,
                    "seconds": round(item.seconds, 6),
                }
                for (number, rule), item in zip(numbers.items(), kb.rule_statistics(), strict=True)
            ]
            prefixes, declared = kb.prefixes, kb.declared
            number = self._store.number()
        lines = [f"@prefix {name}: <{namespace}> ." for name, namespace in prefixes.items()]
        lines += [f"@predicate {name}/{arity}." for name, arity in declared.items()]
        undo = self._store.history.to_undo()
        return {
            "update": number,
            "text": "".join(f"{line}\n" for line in (*lines, *(item["text"] for item in listed))),
            "rules": listed,
            "prefixes": dict(prefixes),
            "undo": None if undo is None else {"update": undo.number, **undo.rules},
        }

    def graph(self) -> dict[str, Any]:
        """The dependency graph with sizes and times."""
        kb, knowledge = self._kb, self._knowledge
        with kb._lock:
            graph = kb.graph
            statistics = dict(zip(knowledge.engine.graph.rules, kb.rule_statistics(), strict=True))
            reader, resolve = knowledge.reader, knowledge.catalogue.resolve
            number = self._store.number()
            rules = knowledge.engine.graph.rules
            nodes = []
            for node in graph.hyper_nodes:
                numbers = [each for each in statistics if statistics[each].rule in node.rules]
                reads = {atom.predicate for each in numbers for atom in body_atoms(rules[each])}
                own = set(map(resolve, node.predicates))
                nodes.append(
                    {
                        **node.to_dict(),
                        "numbers": numbers,
                        "reads": sorted(map(knowledge.catalogue.display, reads - own)),
                        "facts": sum(reader.count(resolve(name)) for name in node.predicates),
                        "seconds": round(sum(statistics[each].seconds for each in numbers), 6),
                        "applications": sum(statistics[each].applications for each in numbers),
                    }
                )
            heads = {name for node in graph.hyper_nodes for name in node.predicates}
            names = dict.fromkeys([*heads, *(name for node in nodes for name in node["reads"])])
            predicates = [
                {"name": name, "facts": reader.count(resolve(name)), "derived": name in heads} for name in sorted(names)
            ]
        edges = [edge.to_dict() for edge in graph.edges]
        return {"update": number, "hyper_nodes": nodes, "edges": edges, "predicates": predicates}

    def drawn(self, format: str) -> str:
        return self._kb.graph.draw(format)

    # --- proofs -------------------------------------------------------------------------------------------------------

    def explain(self, caller: Caller, fact: Any, parameters: Mapping[str, Any] | None, limit: int) -> dict[str, Any]:
        """The lowest proofs of a fact."""
        asked, values = self._fact(caller, fact), values_of(parameters)
        proofs: list[Proof]
        with warnings_collected():
            proofs = list(self._kb.proofs(asked, limit, **values))
        for proof in proofs:
            self._check_proof(caller, proof)
        return {
            "update": self._store.number(),
            "fact": self._text(asked, values),
            "holds": bool(proofs),
            "proofs": [proof.to_dict() for proof in proofs],
        }

    def why_not(self, caller: Caller, fact: Any, parameters: Mapping[str, Any] | None) -> dict[str, Any]:
        """What a fact lacks."""
        asked, values = self._fact(caller, fact), values_of(parameters)
        found: WhyNot = self._kb.why_not(asked, **values)
        text = self._text(asked, values)
        return {
            "update": self._store.number(),
            "fact": text,
            "holds": text in self._kb,
            "text": str(found),
            "missing": list(found.missing),
            "in_the_way": list(found.in_the_way),
        }

    def _fact(self, caller: Caller, fact: Any) -> Any:
        """A fact as a text, or as a predicate with its values."""
        if isinstance(fact, list):
            if not fact or not isinstance(fact[0], str):
                raise problems.bad_request('a fact is a text, or an array: ["path", "a", "c"]')
            return (fact[0], *map(value_from_json, fact[1:]))
        return fact

    def _text(self, asked: Any, values: Mapping[str, Value]) -> str:
        catalogue = self._knowledge.catalogue
        return render(fact_of(asked, values, catalogue), catalogue.prefixes)

    def _check_proof(self, caller: Caller, proof: Proof) -> None:
        """Refuse a proof that shows what somebody may not read."""
        if caller.predicates is not None:
            catalogue = self._knowledge.catalogue
            self.check_predicates(caller, {fact_of(step.fact, {}, catalogue).predicate for step in proof.steps()})


def _contains(row: Any, text: str) -> bool:
    return any(text in str(value).casefold() for value in row)


def mistakes(error: TidelogError) -> Iterator[dict[str, Any]]:
    """What is wrong with a text, for an editor."""
    found = problems.mistakes_of(error) or [{"line": 1, "column": 1, "message": str(error), "hint": ""}]
    for item in found:
        yield {**item, "severity": "error"}
