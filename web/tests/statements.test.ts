import { describe, expect, test } from "vitest";
import { editBetween, statementsOf } from "../src/language/statements";

const keys = (text: string) => statementsOf(text).map(({ key }) => key);

describe("statements", () => {
  test("a dot ends a statement, unless it is in a number, a string, an IRI or a comment", () => {
    const text = 'p(1.5). q("a. b"). % r. s.\nt(<http://a.b/c.d>). # no.\nu(X) :- v(X), X > 2.';
    expect(keys(text)).toEqual([
      "p ( 1.5 ) .",
      'q ( "a. b" ) .',
      "t ( <http://a.b/c.d> ) .",
      "u ( X ) :- v ( X ) , X > 2 .",
    ]);
  });

  test("prefixes stand alone, with their dot or without", () => {
    expect(keys("@prefix ex: <http://e.org/> .\nex:b(X) :- ex:a(X).")).toEqual([
      "@prefix ex: <http://e.org/> .",
      "ex:b ( X ) :- ex:a ( X ) .",
    ]);
    expect(keys("PREFIX ex: <http://e.org/>\nex:b(X) :- ex:a(X).")[1]).toBe("ex:b ( X ) :- ex:a ( X ) .");
  });

  test("a percent sign between operands is no comment", () => {
    expect(keys("even(X) :- n(X), X % 2 = 0. p(a).")).toEqual(["even ( X ) :- n ( X ) , X % 2 = 0 .", "p ( a ) ."]);
  });

  test("what is not finished is a statement, too", () => {
    expect(keys("p(a). q(X) :-")).toEqual(["p ( a ) .", "q ( X ) :-"]);
    expect(keys('p("open')).toHaveLength(1);
    expect(keys("  % nothing\n")).toEqual([]);
  });

  test("facts, rules and declarations are told apart", () => {
    const text = '@prefix ex: <http://e.org/> .\n@predicate p/1.\np("a :- b").\nq(X) :- p(X).\n?- q(X).';
    expect(statementsOf(text).map(({ kind }) => kind)).toEqual(["declaration", "declaration", "fact", "rule", "rule"]);
    const more = "@type t = [x: int].\n@expire p 1.5 s.\n@equality same on p.\n@constraint warn :- p(X), r(X).\n@key p(x).";
    expect(statementsOf(more).map(({ kind }) => kind)).toEqual(["declaration", "rule", "rule", "rule", "rule"]);
  });

  test("layout, comments and order are no edit", () => {
    const before = "p(X) :- q(X).\nr(X) :- q(X), not s(X).";
    const after = "% first\nr( X ):-q(X),\n   not s(X).\n\np(X) :- q(X).";
    expect(editBetween(before, after)).toEqual({ added: [], removed: [] });
  });

  test("an edit is what came and what went", () => {
    const edit = editBetween("p(X) :- q(X).\nr(a).", "p(X) :- q(X), X > 1.\nr(a).");
    expect(edit.added.map(({ text }) => text)).toEqual(["p(X) :- q(X), X > 1."]);
    expect(edit.removed.map(({ text }) => text)).toEqual(["p(X) :- q(X)."]);
  });
});
