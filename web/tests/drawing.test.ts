import { describe, expect, test } from "vitest";
import type { Proof } from "../src/api/types";
import { componentsOf } from "../src/graph/components";
import { layOut } from "../src/graph/layout";
import { isFact, reportLines } from "../src/language/why_not";
import { scaleOf } from "../src/parts/chart";
import { codeParts } from "../src/parts/code";
import { duration, short } from "../src/parts/numbers";
import { nearest } from "../src/parts/proof_graph";
import { linesOf } from "../src/parts/proof_tree";
import { proseParts } from "../src/parts/prose";

const node = (id: string, ...parents: string[]) => ({ id, parents, width: 100, height: 40 });

describe("layout", () => {
  const nodes = [node("a"), node("b", "a"), node("c", "a"), node("d", "b", "c")];

  test.each(["right", "down"] as const)("to the %s, each node comes after those that it comes from", (direction) => {
    const { places, edges, width, height } = layOut(nodes, direction);
    const along = (id: string) => (direction === "right" ? places.get(id)?.x : places.get(id)?.y) ?? Number.NaN;
    expect(edges).toHaveLength(4);
    for (const { source, target } of edges) expect(along(target)).toBeGreaterThan(along(source) + 40);
    expect(Math.max(...[...places.values()].map(({ x }) => x + 50))).toBeLessThanOrEqual(width + 1);
    expect(Math.max(...[...places.values()].map(({ y }) => y + 20))).toBeLessThanOrEqual(height + 1);
  });

  test("a large graph is laid out, too", () => {
    const chain = Array.from({ length: 300 }, (_, index) => node(String(index), ...(index ? [String(Math.floor((index - 1) / 3))] : [])));
    expect(layOut(chain, "down").places.size).toBe(300);
  });
});

describe("proofs", () => {
  const proof: Proof = {
    fact: "p",
    height: 2,
    steps: [
      { fact: "p", rule: "p :- q, r.", premises: [1, 2], conditions: [] },
      { fact: "q", rule: "q :- r.", premises: [2], conditions: [] },
      { fact: "r", rule: null, premises: [], conditions: [] },
    ],
  };

  test("only what is open is drawn, and what is shared wherever it is used", () => {
    expect(linesOf(proof, new Set()).map(({ step }) => step)).toEqual([0]);
    const lines = linesOf(proof, new Set(["0", "0.0"]));
    expect(lines.map(({ step, depth }) => [step, depth])).toEqual([[0, 0], [1, 1], [2, 2], [2, 1]]);
  });

  test("the nearest steps come first", () => {
    expect([...nearest(proof, 2)]).toEqual([0, 1]);
    expect([...nearest(proof, 10)]).toEqual([0, 1, 2]);
  });
});

describe("why not", () => {
  test("lines have marks, subjects and remarks", () => {
    const text = [
      "far(a, c) does not hold. The rule that came closest:",
      "  far(X, Y) :- path(X, Y), big(Y).",
      "    ✓ path(a, c)",
      "    ✗ big(c)  no fact matches",
      "Missing: big(c)",
      "(✓ holds   ✗ does not hold   ? cannot be told: it depends on what does not hold)",
    ].join("\n");
    expect(reportLines(text)).toEqual([
      { depth: 1, mark: undefined, subject: "far(X, Y) :- path(X, Y), big(Y).", remark: "" },
      { depth: 2, mark: "holds", subject: "path(a, c)", remark: "" },
      { depth: 2, mark: "fails", subject: "big(c)", remark: "no fact matches" },
      { depth: 0, mark: undefined, subject: "Missing: big(c)", remark: "" },
    ]);
  });

  test.each([
    ["big(c)", true],
    ["path(a, X)", false],
    ["path(_, b)", false],
    ['name("An X, b")', true],
    ["3 > 4", false],
  ])("%s is a fact: %s", (text, expected) => {
    expect(isFact(text)).toBe(expected);
  });
});

describe("small things", () => {
  test("coloured text is the same text", () => {
    for (const text of ['p(X, "<b>") :- q(X), not ex:r-s(X), X > 1.5.', "unclosed \" string", "😀(😀)", ""]) {
      expect(codeParts(text).map((part) => part.text).join("")).toBe(text);
    }
  });

  test("numbers", () => {
    expect([0, 4e-6, 0.0021, 0.25, 1.5, 300].map(duration)).toEqual(["0 s", "4 µs", "2.1 ms", "250 ms", "1.5 s", "5 min"]);
    expect([999, 9999, 12_345, 10_000_000].map(short)).toEqual(["999", "9,999", "12.3K", "10M"]);
  });

  test("scales are powers of ten around all values", () => {
    expect(scaleOf([0.002, 0.3])).toEqual({ low: -3, high: 0 });
    expect(scaleOf([10, 10])).toEqual({ low: 1, high: 2 });
    expect(scaleOf([0])).toEqual({ low: 0, high: 1 });
  });
});

describe("components", () => {
  const hyperNode = (id: number, predicates: string[], reads: string[], recursive = false) => ({
    id,
    predicates,
    reads,
    recursive,
    rules: [`rule ${id}`],
    numbers: [id],
    stratum: 0,
    facts: 5,
    seconds: 1,
    applications: 2,
  });

  test("hyper-nodes that derive the same predicate are one component", () => {
    const components = componentsOf({
      update: 1,
      hyper_nodes: [hyperNode(1, ["path"], ["edge"]), hyperNode(2, ["path"], ["edge"], true), hyperNode(3, ["far"], ["path", "edge"])],
      edges: [
        { source: 1, target: 2, predicates: ["path"], strict: false },
        { source: 1, target: 3, predicates: ["path"], strict: true },
        { source: 2, target: 3, predicates: ["path"], strict: true },
      ],
      predicates: [
        { name: "path", facts: 7, derived: true },
        { name: "far", facts: 3, derived: true },
      ],
    });
    expect(components).toMatchObject([
      { id: 1, rules: ["rule 1", "rule 2"], reads: ["edge"], sources: [], recursive: true, facts: 7, seconds: 2 },
      { id: 3, rules: ["rule 3"], reads: ["edge"], sources: [1], strict: [1], recursive: false, facts: 3, seconds: 1 },
    ]);
  });

  test("parts of rules are in the component that they are for, and constraints stand alone", () => {
    const rule = "deg(X, N) :- node(X), N = count { Y : edge(X, Y) }.";
    const constraint = ":- deg(X, N), N > 5.";
    const of = (id: number, predicates: string[], text: string, number: number) => ({
      ...hyperNode(id, predicates, ["edge"]),
      rules: [text],
      numbers: [number],
    });
    const components = componentsOf({
      update: 1,
      hyper_nodes: [of(1, [], rule, 1), of(2, ["deg"], rule, 1), of(3, ["deg"], rule, 1), of(4, [], constraint, 4)],
      edges: [
        { source: 1, target: 2, predicates: ["_ = count { Y : edge(_, Y) }"], strict: false },
        { source: 1, target: 3, predicates: ["_ = count { Y : edge(_, Y) }"], strict: true },
        { source: 3, target: 4, predicates: ["deg"], strict: false },
      ],
      predicates: [{ name: "deg", facts: 2, derived: true }],
    });
    expect(components).toMatchObject([
      { id: 2, name: "deg", rules: [rule], numbers: [1], sources: [], facts: 2, seconds: 1 },
      { id: 4, name: "constraint", predicates: [], rules: [constraint], sources: [2], facts: 0 },
    ]);
  });
});

test("pieces of programs stand between backticks", () => {
  expect(proseParts("expected `,`, found `X`")).toEqual([
    { code: false, text: "expected " },
    { code: true, text: "," },
    { code: false, text: ", found " },
    { code: true, text: "X" },
  ]);
  expect(proseParts("a ` b").map(({ text }) => text).join("")).toBe("a ` b");
});
