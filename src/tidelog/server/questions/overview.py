"""What there is: predicates with their sizes, rules with what each has done, the graph of both."""

from __future__ import annotations

from typing import Any

from tidelog.api.statistics import rule_statistics
from tidelog.language.names import is_hidden
from tidelog.language.syntax import body_atoms
from tidelog.live.knowledge import Knowledge
from tidelog.server.commits.store import ServedStore
from tidelog.server.tokens import Caller


class Overview:
    """Tells what there is."""

    def __init__(self, store: ServedStore) -> None:
        self._store = store
        self._kb = store.kb
        self._knowledge: Knowledge = store.knowledge

    def predicates(self, caller: Caller) -> dict[str, Any]:
        """All predicates, with the numbers of their facts, and the prefixes in which names are written."""
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
                        "columns": [column for column, _ in catalogue.described(predicate)["columns"]],
                        "text": catalogue.described(predicate)["text"],
                    }
                )
            prefixes = dict(catalogue.prefixes)
            return {"update": self._store.number(), "predicates": found, "prefixes": prefixes}

        found = knowledge.lock.read(look)
        if (readable := caller.readable(knowledge.catalogue.resolve)) is not None:
            allowed = set(map(knowledge.catalogue.display, readable))
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
                    "head": knowledge.catalogue.display(numbers[number].written.head.predicate),
                    "facts": item.facts,
                    "applications": item.applications,
                    "seconds": round(item.seconds, 6),
                }
                for number, item in rule_statistics(knowledge.engine, knowledge.catalogue.prefixes).items()
            ]
            prefixes, missing = kb.prefixes, knowledge.missing_functions()
            declared = [*knowledge.catalogue.declarations, *kb.expiries]
            number = self._store.number()
        lines = [f"@prefix {name}: <{namespace}> ." for name, namespace in prefixes.items()]
        lines += declared
        undo = self._store.history.to_undo()
        return {
            "update": number,
            "text": "".join(f"{line}\n" for line in (*lines, *(item["text"] for item in listed))),
            "rules": listed,
            "prefixes": dict(prefixes),
            "missing_functions": missing,
            "undo": None if undo is None else {"update": undo.number, **undo.rules},
        }

    def graph(self) -> dict[str, Any]:
        """The dependency graph with sizes and times."""
        kb, knowledge = self._kb, self._knowledge
        with kb._lock:
            graph = kb.graph
            statistics = rule_statistics(knowledge.engine, knowledge.catalogue.prefixes)
            reader, resolve = knowledge.reader, knowledge.catalogue.resolve
            number = self._store.number()
            rules = knowledge.engine.graph.rules
            nodes = []
            for node in graph.hyper_nodes:
                numbers = [each for each in statistics if statistics[each].rule in node.rules]
                parts = knowledge.engine.graph.hyper_node(node.id).rules
                reads = {atom.predicate for each in parts for atom in body_atoms(rules[each])}
                own = set(map(resolve, node.predicates))
                nodes.append(
                    {
                        **node.to_dict(),
                        "numbers": numbers,
                        "reads": sorted(
                            knowledge.catalogue.display(name) for name in reads - own if not is_hidden(name)
                        ),
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
