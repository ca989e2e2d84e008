"""What each form of the language means as a syntax tree."""

from __future__ import annotations

import math
import re

import pytest

from places import ROOT
from tidelog.errors import ParseError
from tidelog.language import parse_atom, parse_program, parse_query, parse_rules
from tidelog.language.syntax import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Expression,
    Negation,
    Place,
    Program,
    Query,
    Rule,
    Variable,
    variables,
)
from tidelog.values import IRI, Literal, Value, identity

X, Y, Z = Variable("X"), Variable("Y"), Variable("Z")


def value(text: str) -> Value:
    """The constant that a text stands for, as an argument of a fact and of a rule alike."""
    (fact,) = parse_program(f"p({text}).").facts
    (argument,) = parse_atom(f"p({text})", {}).arguments
    assert argument == fact.arguments[0]
    assert isinstance(argument, Constant)
    return argument.value


def expression(text: str) -> Expression:
    (comparison,) = parse_query(f"0 = {text}", {}).body
    assert isinstance(comparison, Comparison)
    return comparison.right


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abc", "abc"),
        ('"abc"', "abc"),
        ("'abc'", "abc"),
        ('"Abc d"', "Abc d"),
        ('""', ""),
        ("größe", "größe"),
        ("日本", "日本"),
        ("a_1", "a_1"),
        ("not", "not"),
        ('"say \\"hi\\""', 'say "hi"'),
        ("'it\\'s'", "it's"),
        ('"tab\\tline\\nback\\\\slash"', "tab\tline\nback\\slash"),
        ('"\\u00e9\\U0001F600"', "é😀"),
        ('"no % comment # here // at all"', "no % comment # here // at all"),
        ("42", 42),
        ("-7", -7),
        ("- 7", -7),
        ("007", 7),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("3.5", 3.5),
        ("-0.25", -0.25),
        ("1e-3", 0.001),
        ("1E3", 1000.0),
        ("2.5e+10", 2.5e10),
        ("-0.0", 0.0),
        ("true", True),
        ("false", False),
        ("<http://example.org/a#b>", IRI("http://example.org/a#b")),
        ("<http://example.org/\\u00e9>", IRI("http://example.org/é")),
        ("<>", IRI("")),
        ("ex:name", IRI("ex:name")),
        ("ex:Time-Span", IRI("ex:Time-Span")),
        (":name", IRI(":name")),
        ("_:b0", IRI("_:b0")),
        ('"chat"@fr', Literal("chat", language="fr")),
        ('"colour"@en-GB', Literal("colour", language="en-gb")),
        ('"2020"^^<http://example.org/year>', Literal("2020", datatype="http://example.org/year")),
        ('"2020"^^ex:year', Literal("2020", datatype="ex:year")),
        ('"2020-01-01"^^xsd:date', Literal("2020-01-01", datatype="http://www.w3.org/2001/XMLSchema#date")),
        ('"x"^^<http://www.w3.org/2001/XMLSchema#string>', "x"),
        ('"5"^^xsd:integer', 5),
        ('"five"^^xsd:integer', Literal("five", datatype="http://www.w3.org/2001/XMLSchema#integer")),
        ('"99999999999999999999"^^xsd:integer', Literal("9" * 20, "http://www.w3.org/2001/XMLSchema#integer")),
        ('"5"^^xsd:double', 5.0),
        ('"-INF"^^xsd:double', -math.inf),
        ('"NaN"^^xsd:double', math.nan),
        ('"1.50"^^xsd:decimal', 1.5),
        ('"1"^^xsd:boolean', True),
        ('"false"^^xsd:boolean', False),
    ],
)
def test_constants(text: str, expected: Value) -> None:
    assert identity(value(text)) == identity(expected)


@pytest.mark.parametrize("datatype", ["http://e/o'@x", "'@'", "http://e/@'a", "'"])
def test_quotes_in_a_datatype_end_no_text(datatype: str) -> None:
    for text in (f'"a"^^<{datatype}>', f"'a'^^<{datatype}>"):
        (fact,) = parse_program(f"p({text}).").facts
        assert fact.arguments == (Constant(Literal("a", datatype)),)


def test_constants_of_different_types_are_different() -> None:
    (fact,) = parse_program('p(1, 1.0, "1", true).').facts
    assert len(set(fact.arguments)) == 4


@pytest.mark.parametrize("name", ["X", "Name", "Ärger", "?x", "?X1", "_hidden", "_7"])
def test_variables(name: str) -> None:
    assert parse_atom(f"p({name})", {}).arguments == (Variable(name),)
    assert parse_atom(f"p(({name}))", {}).arguments == (Variable(name),)


def test_each_underscore_is_a_variable_of_its_own() -> None:
    (rule, other) = parse_rules("p(X) :- q(X, _, _), not r(_, X). q(X) :- r(X, _, _1, _).", {})
    assert [variable.name for variable in variables(rule)] == ["X", "X", "_1", "_2", "_3", "X"]
    assert [variable.name for variable in variables(other)] == ["X", "X", "_2", "_1", "_3"]


def test_statements_of_all_kinds() -> None:
    program = parse_program(
        """
        edge(a, b).                                   % a fact
        path(X, Y) :- edge(X, Y).                     # a rule
        alone(X)   :- node(X), not edge(X, _), !q.    // negation
        ?- path(a, X), X != b.
        flag. other().
        """
    )
    assert program == Program(
        facts=(Atom("edge", (Constant("a"), Constant("b"))), Atom("flag"), Atom("other")),
        rules=(
            Rule(Atom("path", (X, Y)), (Atom("edge", (X, Y)),)),
            Rule(
                Atom("alone", (X,)),
                (Atom("node", (X,)), Negation(Atom("edge", (X, Variable("_1")))), Negation(Atom("q"))),
            ),
        ),
        queries=(Query((Atom("path", (Constant("a"), X)), Comparison("!=", X, Constant("b")))),),
    )


def test_brackets_mean_parentheses() -> None:
    assert parse_program("p[a]. q[X] :- r[X, f[X]], s[], X = [1 + 2] * 3.") == parse_program(
        "p(a). q(X) :- r(X, f(X)), s(), X = (1 + 2) * 3."
    )


def test_a_program_is_free_in_its_blanks() -> None:
    spread = "\ufeffp (\n  X ,\r\n\tY\n) :-\n\n  q( X\n, Y ) % so\n , not\nr(X) , X\n=\nY . s( a ) .\r\n"
    assert parse_program(spread) == parse_program("p(X,Y):-q(X,Y),not r(X),X=Y.s(a).")


@pytest.mark.parametrize("blank", ["\u00a0", "\u2003", "\v", "\f", "\t", "\r\n"])
def test_a_blank_is_a_blank_wherever_it_stands(blank: str) -> None:
    """This includes the blanks that come with text copied from a web page."""
    text = "  p(X) :- q(X, Y), X < Y + 1, Z = abs(X), not r(Z), Z / 2 > 1. ?- p(X). p(3) .  "
    assert parse_program(text.replace(" ", blank)) == parse_program(text)


def test_expressions_by_precedence() -> None:
    one, two = Constant(1), Constant(2)
    assert expression("X + 1 * 2") == Call("+", (X, Call("*", (one, two))))
    assert expression("(X + 1) * 2") == Call("*", (Call("+", (X, one)), two))
    assert expression("X - 1 - 2") == Call("-", (Call("-", (X, one)), two))
    assert expression("X / Y % Z") == Call("%", (Call("/", (X, Y)), Z))
    assert expression("X-1") == Call("-", (X, one))
    assert expression("X - -1") == Call("-", (X, Constant(-1)))
    assert expression("-X * 2") == Call("*", (Call("neg", (X,)), two))
    assert expression("-(1)") == Call("neg", (one,))
    assert expression("abs(X - Y)") == Call("abs", (Call("-", (X, Y)),))
    assert expression("now()") == Call("now", ())


def test_concat_of_many_is_concat_of_two_over_and_over() -> None:
    assert expression("concat(X, Y, Z)") == expression("concat(concat(X, Y), Z)")


def test_expressions_are_arguments_too() -> None:
    (rule,) = parse_rules("p(X + 1) :- q(X), r(abs(X), X * 2).", {})
    assert rule.head.arguments == (Call("+", (X, Constant(1))),)
    assert rule.body[1] == Atom("r", (Call("abs", (X,)), Call("*", (X, Constant(2)))))


def test_a_call_is_an_atom_only_where_nothing_is_done_with_it() -> None:
    query = parse_query("length(X), abs(X) > 3, length(X) = Y, size - 1 < 2", {})
    assert [type(item) for item in query.body] == [Atom, Comparison, Comparison, Comparison]


def test_aggregates() -> None:
    (rule,) = parse_rules("p(X, count(Y), count(distinct Y), sum(Y * 2), median[Z]) :- q(X, Y, Z).", {})
    assert rule.head.arguments == (
        X,
        Aggregate("count", Y),
        Aggregate("count", Y, distinct=True),
        Aggregate("sum", Call("*", (Y, Constant(2)))),
        Aggregate("median", Z),
    )
    assert parse_atom("count(X, distinct)", {}) == Atom("count", (X, Constant("distinct")))


def test_the_percent_sign_is_an_operator_between_operands_and_a_comment_elsewhere() -> None:
    modulo = parse_query("Y = X % 2, q(Y)", {})
    assert modulo.body[0] == Comparison("=", Y, Call("%", (X, Constant(2))))
    for text in ("Y = X%2, q(Y)", "Y = X %(2), q(Y)", "Y = X % 2\n, q(Y)", "Y = X % 2 % of what\n, q(Y)"):
        assert parse_query(text, {}) == modulo
    plain = parse_query("Y = X, q(Y)", {})
    for text in (
        "Y = X % the same\n, q(Y)",
        "Y = X, % X\nq(Y)",
        "Y = X\n  % X, again\n, q(Y)",
        "Y = X % 2 of them\n, q(Y)",
        "Y = X % (as before)\n, q(Y)",
        "Y = X % (mod 4 again)\n, q(Y)",
        "Y = X % (a modest one)\n, q(Y)",
        "Y = X % [see above]\n, q(Y)",
    ):
        assert parse_query(text, {}) == plain


@pytest.mark.parametrize("operator", ["mod", "div", "band", "bor", "bxor", "shl", "shr", "+"])
def test_operators_that_are_words_are_no_prose_behind_a_percent_sign(operator: str) -> None:
    remainder = Comparison("=", Z, Call("%", (Constant(7), Call(operator, (X, Constant(4))))))
    for opening, closing in ("()", "[]"):
        for text in (
            f"Z = 7 % {opening}X {operator} 4{closing}\n , q(Z)",
            f"q(Z), Z = 7 % {opening}X  {operator}\t4{closing}.",
        ):
            assert remainder in parse_query(text, {}).body


def test_declared_prefixes_stand_for_iris() -> None:
    program = parse_program(
        "@prefix ex: <http://example.org/> .\nPREFIX : <http://other.org#>\n"
        "ex:Person[?x] :- :p(?x, ex:a, un:b), un:c(?x)."
    )
    assert program.prefixes == (("ex", "http://example.org/"), ("", "http://other.org#"))
    (rule,) = program.rules
    assert rule.head.predicate == "<http://example.org/Person>"
    first, second = rule.body
    assert isinstance(first, Atom)
    assert isinstance(second, Atom)
    assert first.predicate == "<http://other.org#p>"
    assert first.arguments[1:] == (Constant(IRI("http://example.org/a")), Constant(IRI("un:b")))
    assert second.predicate == "un:c"
    assert parse_program("<http://example.org/Person>(a).", prefixes={}) == parse_program(
        "ex:Person(a).", prefixes={"ex": "http://example.org/"}
    )


def test_a_prefix_can_change_and_holds_from_there_on() -> None:
    program = parse_program("PREFIX e: <u1/> e:p(e:a). PREFIX e: <u2/> e:p(e:a).")
    assert [str(fact) for fact in program.facts] == ["<u1/p>(<u1/a>)", "<u2/p>(<u2/a>)"]


ODDITIES = """% Search "a15:" (3 hits in 1 file of 1 searched) [Normal]\t\t--> ca. 371.908 hits
% ------------------------------

PREFIX owl: http://www.w3.org/2002/07/owl#
PREFIX skos: http://www.w3.org/2004/02/skos/core#
@prefix obo: <http://purl.obolibrary.org/obo/>
PREFIX a1: <http://purl.org/NET/crm-owl#>
prefix dbpedia-owl: <http://dbpedia.org/ontology/>.

skos:Collection[?X] :- skos:OrderedCollection[?X] .
% skos:broader[?X,?Y] :- skos:broadMatch[?X,?Y] .
owl:sameAs[?X1,?X2] :- a1:P4_has_time-span[?X,?X2], a1:P4_has_time-span[?X,?X1], a1:E2_Temporal_Entity[?X] .
obo:BFO_0000040[?X] :- obo:RO_0003000[?X,?X1] .
p:hasChild[?X,?Y] :- dbpedia-owl:child[?X,?Y] .
"""


def test_rule_files_as_they_are_found() -> None:
    program = parse_program(ODDITIES)
    assert dict(program.prefixes) == {
        "owl": "http://www.w3.org/2002/07/owl#",
        "skos": "http://www.w3.org/2004/02/skos/core#",
        "obo": "http://purl.obolibrary.org/obo/",
        "a1": "http://purl.org/NET/crm-owl#",
        "dbpedia-owl": "http://dbpedia.org/ontology/",
    }
    assert [rule.head.predicate for rule in program.rules] == [
        "<http://www.w3.org/2004/02/skos/core#Collection>",
        "<http://www.w3.org/2002/07/owl#sameAs>",
        "<http://purl.obolibrary.org/obo/BFO_0000040>",
        "p:hasChild",
    ]
    assert str(program.rules[1].body[0]) == "<http://purl.org/NET/crm-owl#P4_has_time-span>(?X, ?X2)"


def test_words_of_the_language_can_be_names_where_nothing_else_fits() -> None:
    program = parse_program("prefix(a). prefix :- count, distinct, median(X, M). count(a). ?- sum(X).")
    assert {fact.predicate for fact in program.facts} == {"prefix", "count"}
    assert program.rules[0] == Rule(
        Atom("prefix"), (Atom("count"), Atom("distinct"), Atom("median", (X, Variable("M"))))
    )


def test_predicates_in_any_case() -> None:
    assert parse_atom("Person(a)", {}).predicate == "Person"
    assert parse_atom("_p(a)", {}).predicate == "_p"


@pytest.mark.parametrize(
    "text", ["edge(a, X), X != b", "?- edge(a, X), X != b", "?- edge(a, X), X != b.", " edge(a,X),X!=b . "]
)
def test_a_query_with_and_without_its_marks(text: str) -> None:
    assert parse_query(text, {}) == Query((Atom("edge", (Constant("a"), X)), Comparison("!=", X, Constant("b"))))


def test_an_atom_with_and_without_its_dot() -> None:
    assert parse_atom("edge(a, b)", {}) == parse_atom("edge(a, b).", {}) == Atom("edge", (Constant("a"), Constant("b")))
    assert parse_atom("ex:p", {"ex": "u/"}) == Atom("<u/p>")


def test_places_count_from_one() -> None:
    program = parse_program(
        "edge(a, b). edge(b, c).\n  edge(\n c, d).\npath(X,\n   Y) :- edge(X, Y), X\n < Z + 1.\n?- path(a, X)."
    )
    assert [fact.place for fact in program.facts] == [Place(1, 1), Place(1, 13), Place(2, 3)]
    (rule,) = program.rules
    assert rule.place == Place(4, 1)
    assert [(variable.name, variable.place) for variable in variables(rule)] == [
        ("X", Place(4, 6)),
        ("Y", Place(5, 4)),
        ("X", Place(5, 15)),
        ("Y", Place(5, 18)),
        ("X", Place(5, 22)),
        ("Z", Place(6, 4)),
    ]
    assert program.queries[0].place == Place(7, 1)


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">=", "=", "!="])
@pytest.mark.parametrize(
    "right",
    [
        "Y",
        "?y",
        "_",
        "7",
        "-7",
        "3.5",
        "0.5",
        "1e3",
        "3.5 + 1",
        "Y-1",
        "Y - -1",
        "2*?y",
        "2 * Y + 1",
        "Y % 2",
        "Y / 2",
        "3 . ",
        "Y . ",
        "abs(Y)",
    ],
)
def test_a_comparison_between_atoms_is_what_it_is_alone(operator: str, right: str) -> None:
    for blank in ("", " ", "\n  "):
        test = f"X{blank}{operator}{blank}{right}"
        ended = test if test.endswith(". ") else f"{test}."
        alone = parse_query(ended, {}).body
        between = parse_program(f"?- p(X), {ended}").queries[0].body
        assert between[1:] == alone
        assert [item.place.line for item in between[1:] if item.place] == [
            item.place.line for item in alone if item.place
        ]
        if ended is not test:
            behind = parse_program(f"?- p(X), {test}, not q(X).").queries[0].body
            assert behind == (*between, Negation(Atom("q", (X,))))


def test_the_examples_of_the_documentation_are_programs() -> None:
    text = (ROOT / "docs" / "reference" / "language.md").read_text(encoding="utf-8")
    blocks = [block for language, block in re.findall(r"```(\w*)\n(.*?)```", text, re.DOTALL) if not language]
    programs = [
        parse_program(block) for block in blocks if ":-" in block and "hint:" not in block and "@import" not in block
    ]
    written = [{rule.written for rule in program.rules} for program in programs]
    assert [len(rules) for rules in written] == [11, 5, 4, 5, 2, 2, 3, 4]


def test_an_empty_text_is_an_empty_program() -> None:
    assert parse_program("") == parse_program(" \n % nothing\n") == parse_program("# nothing") == Program()


def test_texts_are_independent_of_each_other() -> None:
    with pytest.raises(ParseError):
        parse_program("@prefix ex: <u/> . p(_, count(X)) :- q(X), .")
    (rule,) = parse_program("ex:p(_) :- q(_, X).").rules
    assert rule.head == Atom("ex:p", (Variable("_1"),))


def test_the_empty_class_with_two_arguments_is_the_empty_property() -> None:
    text = "PREFIX owl: <http://www.w3.org/2002/07/owl#>\nowl:Nothing[?X] :- a[?X] .\nowl:Nothing[?X,?Y] :- r[?X,?Y] ."
    names = [rule.head.predicate for rule in parse_program(text).rules]
    assert names == ["<http://www.w3.org/2002/07/owl#Nothing>", "<http://www.w3.org/2002/07/owl#bottomObjectProperty>"]


def test_a_remainder_in_parentheses_before_others() -> None:
    """What follows a `%` is no comment, for the look ahead from a parenthesis either."""
    for body in ("(Y % X) = 1, ( b(X) ; c(X) )", "(Y % X) = 1,\n b(X), (X) = 3", "( b(X), (Y % 2) = 1, c(X) )"):
        (rule,) = parse_program(f"p(X) :- a(X, Y), {body}.").rules[:1]
        assert "% " in str(rule)
    (rule,) = parse_program("p(X) :- ( a(X), b(X) % it's (the first\n; c(X) % or; this\n ).").rules[:1]
    assert str(rule) == "p(X) :- ( a(X), b(X) ; c(X) )."
    with pytest.raises(ParseError, match="nested more than"):
        parse_program("p(X) :- a(X), " + "(" * 200 + "X" + " % 2)" * 200 + " = 0.")
