"""What can be read of a knowledge base: facts, answers, proofs, what is declared, and how the rules did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tidelog.api.statistics import ListedRule, RuleStatistics, rule_statistics
from tidelog.engine.update.failures import Failures
from tidelog.facts.questions import Fact, warn_of_unknown
from tidelog.facts.reading import Facts
from tidelog.facts.results import Answers
from tidelog.language import render
from tidelog.language.names import is_hidden
from tidelog.language.syntax import Atom, Query
from tidelog.live.knowledge import Knowledge
from tidelog.moments import moment_at
from tidelog.program.catalogue import Catalogue

if TYPE_CHECKING:
    from datetime import datetime

    from tidelog.api.dependencies import DependencyGraph
    from tidelog.proofs.failure import WhyNot
    from tidelog.proofs.proof import Proof


class ReadableKnowledge:
    """A knowledge base as its readers know it. Nothing here changes what holds."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._engine = knowledge.engine
        self._catalogue = knowledge.catalogue
        self._lock = knowledge.lock
        self._reader = knowledge.reader

    @property
    def prefixes(self) -> Mapping[str, str]:
        """The declared prefixes, and the IRIs that they stand for.

        Examples:
            >>> tidelog.KnowledgeBase("@prefix ex: <http://example.org/> .").prefixes
            {'ex': 'http://example.org/'}
        """
        with self._lock:
            return dict(self._catalogue.prefixes)

    @property
    def predicates(self) -> list[str]:
        """Every predicate that has facts, that a rule mentions, or that is declared.

        Examples:
            >>> tidelog.KnowledgeBase("q(X) :- p(X).  r(a).").predicates
            ['p', 'q', 'r']
        """
        with self._lock:
            return self._reader.predicates()

    @property
    def explicit_predicates(self) -> list[str]:
        """Every predicate that has explicit facts.

        Examples:
            >>> tidelog.KnowledgeBase("q(X) :- p(X).  r(a).").explicit_predicates
            ['r']
        """
        with self._lock:
            return self._reader.explicit_predicates()

    @property
    def declared(self) -> Mapping[str, int]:
        """The predicates that are declared, with their numbers of arguments, whether or not they have facts.

        Examples:
            >>> "flag" in tidelog.KnowledgeBase("@predicate flag/1.").declared
            True
        """
        with self._lock:
            display, declared = self._catalogue.display, self._catalogue.declared
            return {display(name): signature.arity for name, signature in declared.items() if not is_hidden(name)}

    @property
    def declarations(self) -> list[str]:
        """What is declared of predicates and types, as text.

        Examples:
            >>> tidelog.KnowledgeBase("@predicate edge(from: string, weight: float).").declarations
            ['@predicate edge(from: string, weight: float).']
        """
        with self._lock:
            return self._catalogue.declarations

    def describe(self, predicate: str) -> dict[str, Any]:
        """What is declared of a predicate: the names and types of its columns, and the text about it.

        Examples:
            >>> kb = tidelog.KnowledgeBase('@predicate age(who: string, years: int) "How old people are.".')
            >>> kb.describe("age")["columns"], kb.describe("age")["text"]
            ([('who', 'string'), ('years', 'int')], 'How old people are.')
        """
        with self._lock:
            return self._catalogue.described(self._catalogue.resolve(predicate))

    @property
    def errors(self) -> Failures:
        """How many matches of rules and queries have failed so far because an expression had no value; the first ones
        are in `errors.first`.

        Examples:
            >>> kb = tidelog.KnowledgeBase("part(X, 1 / N) :- share(X, N).  share(a, 2). share(b, 0).")
            >>> kb.errors, list(kb.facts("part"))
            (1, [('a', 0.5)])
        """
        with self._lock:
            return self._knowledge.failures.seen

    @property
    def version(self) -> int:
        """How many updates have been made since the knowledge base was made or opened; the `update` of messages.

        Examples:
            >>> kb = tidelog.KnowledgeBase()
            >>> _ = kb.update(add={"edge": [("a", "b")]})
            >>> kb.version
            1
        """
        return self._knowledge.version

    @property
    def commit_info(self) -> Mapping[str, str]:
        """The `commit` of the last update that had one, also after `open`.

        Examples:
            >>> kb = tidelog.KnowledgeBase()
            >>> _ = kb.update(add={"edge": [("a", "b")]}, commit={"offset": "17"})
            >>> kb.commit_info
            {'offset': '17'}
        """
        with self._lock:
            return dict(self._knowledge.commit_info)

    @property
    def time(self) -> datetime | None:
        """The time up to which this knowledge base has come, in UTC; None as long as nobody has said it.

        Examples:
            >>> kb = tidelog.KnowledgeBase()
            >>> _ = kb.advance(90)
            >>> kb.time
            datetime.datetime(1970, 1, 1, 0, 1, 30, tzinfo=datetime.timezone.utc)
        """
        time = self._knowledge.timing.now()
        return None if time is None else moment_at(time)

    @property
    def expiries(self) -> list[str]:
        """What expires, as the program says it.

        Examples:
            >>> tidelog.KnowledgeBase("@expire reading(_, T) 90s by T.").expiries
            ['@expire reading(_, T) 90 s by T.']
        """
        with self._lock:
            return sorted(render(expiry, self._catalogue.prefixes) for expiry in self._knowledge.timing.expiries())

    @property
    def violations(self) -> list[Proof]:
        """Proofs of what violates constraints that only record it, `@constraint warn :- …`: of each, the first
        ones. What violates others is refused.

        Examples:
            >>> kb = tidelog.KnowledgeBase("@constraint warn :- on(X), broken(X).  on(lamp). broken(lamp).")
            >>> [proof.fact for proof in kb.violations]
            [':- on(lamp), broken(lamp)']
        """
        return self._knowledge.proving.violations()

    @property
    def constants(self) -> int:
        """How many constants have room here; those of facts that are gone keep theirs.

        Examples:
            >>> tidelog.KnowledgeBase("edge(a, b). edge(b, c).").constants >= 3
            True
        """
        with self._lock:
            return len(self._engine.store.terms)

    @property
    def rules(self) -> list[ListedRule]:
        """The rules of the program as text, each with the `facts` it derived and the `seconds` it took so far.

        Examples:
            >>> kb = tidelog.KnowledgeBase("back(Y, X) :- edge(X, Y).  edge(a, b).")
            >>> kb.rules, kb.rules[0].facts
            (['back(Y, X) :- edge(X, Y).'], 1)
        """
        return list(map(ListedRule.of, self.rule_statistics()))

    @property
    def missing_functions(self) -> list[str]:
        """The functions that rules call and that nobody has registered, as after `open`.

        Examples:
            >>> tidelog.KnowledgeBase().missing_functions
            []
        """
        with self._lock:
            return self._knowledge.missing_functions()

    @property
    def graph(self) -> DependencyGraph:
        """The hyper rule dependency graph of the rules: hyper-nodes, edges, strata, and what a change would impact.

        Examples:
            >>> kb = tidelog.KnowledgeBase("b(X) :- a(X).  c(X) :- b(X), not d(X).")
            >>> print(kb.graph)
            hn1: b(X) :- a(X).
            hn2: c(X) :- b(X), not d(X).
            hn1 → hn2: b
        """
        from tidelog.api.dependencies import DependencyGraph

        with self._lock:
            graph, catalogue = self._engine.graph.copy(), self._catalogue
            known = Catalogue(catalogue.prefixes, catalogue.arities, declared=catalogue.declared)
            return DependencyGraph.of(graph, known, self._knowledge.functions)

    def rule_statistics(self) -> list[RuleStatistics]:
        """What each rule has done and how long it took; see `RuleStatistics` for what is measured.

        Examples:
            >>> kb = tidelog.KnowledgeBase("back(Y, X) :- edge(X, Y).  edge(a, b). edge(b, c).")
            >>> [(item.rule, item.facts, item.applications) for item in kb.rule_statistics()]
            [('back(Y, X) :- edge(X, Y).', 2, 2)]
        """
        with self._lock:
            return list(rule_statistics(self._engine, self._catalogue.prefixes).values())

    def facts(self, predicate: str) -> Facts:
        """The facts of a predicate, as they are whenever one looks.

        Examples:
            >>> kb = tidelog.KnowledgeBase("back(Y, X) :- edge(X, Y).  edge(a, b).")
            >>> back = kb.facts("back")
            >>> len(back), ("b", "a") in back, list(back)
            (1, True, [('b', 'a')])
        """
        return self._facts(predicate, explicit=False)

    def explicit(self, predicate: str) -> Facts:
        """Only the explicit facts of a predicate.

        Examples:
            >>> kb = tidelog.KnowledgeBase("near(X, Y) :- near(Y, X).  near(a, b).")
            >>> list(kb.explicit("near")), len(kb.facts("near"))
            ([('a', 'b')], 2)
        """
        return self._facts(predicate, explicit=True)

    def _facts(self, name: str, explicit: bool) -> Facts:
        with self._lock:
            predicate = self._catalogue.resolve(name)
            warn_of_unknown(self._catalogue, predicate)
            return Facts(self._lock, self._reader, predicate, explicit)

    def query(self, text: str | Query, /, **values: object) -> Answers:
        """The answers of a query over the materialisation. `values` are those of its parameters: `may($user, write)` is
        asked with `user="ada"`, and a value is a constant, whatever it looks like.

        Examples:
            >>> kb = tidelog.KnowledgeBase("age(ada, 36). age(bob, 17).")
            >>> kb.query("age(Who, N), N >= 18")
            [{'Who': 'ada', 'N': 36}]
            >>> kb.query("age(bob, _)")
            [{}]
        """
        return self._knowledge.questions.query(text, values)

    def __contains__(self, fact: object) -> bool:
        """Whether a fact holds: `"may(ada, write)"`, or `("may", "ada", "write")`, whose values are not parsed."""
        return isinstance(fact, str | tuple | Atom) and self._knowledge.questions.holds(fact)

    def __len__(self) -> int:
        with self._lock:
            return self._reader.count_all()

    # --- proofs -------------------------------------------------------------------------------------------------------

    def explain(self, fact: Fact, /, **values: object) -> Proof | None:
        """A proof of least height of a fact such as `"path(a, c)"`; None if it does not hold. Facts with parameters are
        asked with their values, as in `query`, or as tuples.

        Examples:
            >>> kb = tidelog.KnowledgeBase("path(X, Y) :- edge(X, Y).  edge(a, b).")
            >>> print(kb.explain("path(a, b)"))
            path(a, b)  by path(X, Y) :- edge(X, Y).
            └── edge(a, b)  explicit
            >>> kb.explain("path(b, a)") is None
            True
        """
        return next(iter(self._knowledge.proving.proofs(fact, 1, values)), None)

    def proofs(self, fact: Fact, /, limit: int = 10, **values: object) -> Iterator[Proof]:
        """The `limit` lowest proofs of a fact, the lowest first.

        Examples:
            >>> kb = tidelog.KnowledgeBase("p(X) :- q(X).  p(X) :- r(X).  q(a).  r(a).")
            >>> [proof.rule for proof in kb.proofs("p(a)")]
            ['p(X) :- q(X).', 'p(X) :- r(X).']
        """
        return iter(self._knowledge.proving.proofs(fact, limit, values))

    def why_not(self, fact: Fact, /, **values: object) -> WhyNot:
        """What a fact that does not hold lacks, down to the explicit facts: the rule that came closest, the parts of
        its body that failed, and what they lack in turn.

        Examples:
            >>> kb = tidelog.KnowledgeBase("path(X, Y) :- edge(X, Y).  edge(a, b).")
            >>> print(kb.why_not("path(b, a)"))
            path(b, a) does not hold...
        """
        return self._knowledge.proving.why_not(fact, values)
