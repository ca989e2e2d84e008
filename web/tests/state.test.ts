import { describe, expect, test } from "vitest";
import type { Commit } from "../src/api/types";
import { faded, LIGHT, readAgain, standing, unlit, withChange } from "../src/state/lit_rows";
import { afterEvent, NO_ANSWERS } from "../src/state/live_answers";
import { EMPTY, MOST_COMMITS, withCommits, withPredicates } from "../src/state/picture";
import { linkTo, parseRoute } from "../src/state/route";

const commit = (update: number, added: Record<string, number> = {}, removed: Record<string, number> = {}): Commit => ({
  update,
  at: "2026-01-01T00:00:00Z",
  seconds: 0.001,
  latency: 0.002,
  together: 1,
  added,
  removed,
  work: {},
  rules: { added: [], removed: [] },
  facts: 10,
  errors: 0,
});

const listed = (update: number, facts: number) => ({
  update,
  predicates: [{ name: "edge", arity: 2, facts, explicit: facts, derived: false, columns: ["c0", "c1"], text: "" }],
});

describe("the picture", () => {
  test("counts move with commits that came after they were listed, and with no others", () => {
    const picture = withCommits(withPredicates(EMPTY, listed(5, 100)), [
      commit(4, { edge: 50 }),
      commit(5, { edge: 50 }),
      commit(6, { edge: 3 }, { edge: 1 }),
    ]);
    expect(picture.predicates.get("edge")?.facts).toBe(102);
    expect(picture.moved.get("edge")).toEqual({ update: 6, added: 3, removed: 1 });
    expect(picture.commits.map(({ update }) => update)).toEqual([4, 5, 6]);
    expect(picture).toMatchObject({ update: 6, facts: 10, stale: false });
  });

  test("commits that are told twice count once", () => {
    const once = withCommits(withPredicates(EMPTY, listed(1, 1)), [commit(2, { edge: 1 })]);
    expect(withCommits(once, [commit(2, { edge: 1 })])).toBe(once);
  });

  test("a predicate that nobody has listed, or other rules, ask for a new list", () => {
    const picture = withPredicates(EMPTY, listed(1, 1));
    expect(withCommits(picture, [commit(2, { path: 1 })]).stale).toBe(true);
    expect(withCommits(picture, [{ ...commit(2), rules: { added: ["p(X) :- q(X)."], removed: [] } }]).stale).toBe(true);
  });

  test("a list that is older than the commits is asked for again", () => {
    const picture = withCommits(withPredicates(EMPTY, listed(1, 1)), [commit(2, { edge: 1 })]);
    expect(withPredicates(picture, listed(1, 1))).toMatchObject({ update: 2, stale: true });
  });

  test("old commits are forgotten", () => {
    const many = Array.from({ length: MOST_COMMITS + 10 }, (_, index) => commit(index + 1));
    expect(withCommits(EMPTY, many).commits).toHaveLength(MOST_COMMITS);
  });
});

describe("lit rows", () => {
  const lights = (rows: ReturnType<typeof unlit>) => rows.map(({ row, light }) => [row[0], light]);

  test("a page that is read again shows what came and what went, where it was", () => {
    const again = readAgain(unlit([["a"], ["b"], ["c"]]), [["a"], ["c"], ["d"]], 1000);
    expect(lights(again)).toEqual([["a", undefined], ["b", "went"], ["c", undefined], ["d", "came"]]);
    expect(standing(again)).toBe(3);
    const later = readAgain(again, [["a"], ["c"], ["d"]], 1000 + LIGHT);
    expect(lights(later)).toEqual([["a", undefined], ["c", undefined], ["d", undefined]]);
  });

  test("a row that only moves into sight is not lit up", () => {
    const again = readAgain(unlit([["a"], ["b"], ["c"]]), [["b"], ["c"], ["d"]], 1000, { came: 0, went: 1 });
    expect(lights(again)).toEqual([["a", "went"], ["b", undefined], ["c", undefined], ["d", undefined]]);
  });

  test("what went and came back is there, lit up", () => {
    const gone = readAgain(unlit([["a"]]), [], 1000);
    expect(lights(readAgain(gone, [["a"]], 1500))).toEqual([["a", "came"]]);
  });

  test("answers that come stand first, and lights go out", () => {
    const changed = withChange(unlit([["a"], ["b"]]), [["c"]], [["a"]], 1000);
    expect(lights(changed)).toEqual([["c", "came"], ["a", "went"], ["b", undefined]]);
    expect(lights(faded(changed, 1000 + LIGHT))).toEqual([["c", undefined], ["b", undefined]]);
  });
});

describe("live answers", () => {
  const event = (name: string, data: unknown) => ({ id: "", event: name, data: JSON.stringify(data) });
  const after = (...events: ReturnType<typeof event>[]) => events.reduce((now, each) => afterEvent(now, each, 1000), NO_ANSWERS);
  const snapshot = (rows: unknown[], more = false) => event("snapshot", { update: 3, variables: ["X"], rows, more });

  test("a snapshot in parts counts when it is complete", () => {
    expect(after(snapshot([["a"]], true)).rows).toEqual([]);
    expect(after(snapshot([["a"]], true), snapshot([["b"]])).rows.map(({ row }) => row)).toEqual([["a"], ["b"]]);
  });

  test("differences and progress", () => {
    const answers = after(snapshot([["a"]]), event("change", { update: 4, added: [["b"]], removed: [["a"]] }), event("progress", { update: 9 }));
    expect(answers.rows.map(({ row, light }) => [row, light])).toEqual([[["b"], "came"], [["a"], "went"]]);
    expect(answers.update).toBe(9);
  });

  test("a reset throws the old picture away", () => {
    const answers = after(snapshot([["a"]]), event("reset", { update: 30, reason: "…" }), snapshot([["z"]]));
    expect(answers.rows.map(({ row }) => row)).toEqual([["z"]]);
  });
});

describe("addresses", () => {
  test.each(["path(a, c)", "a/b%?#", '"<b>"', "<http://example.org/Person>"])("%s can be a subject", (subject) => {
    expect(parseRoute(linkTo("proofs", subject))).toMatchObject({ view: "proofs", subject });
  });

  test("whatever else is there leads to the facts", () => {
    expect(parseRoute("#/nothing")).toMatchObject({ view: "facts", subject: "" });
    expect(parseRoute("")).toMatchObject({ view: "facts", subject: "" });
    expect(parseRoute("#/facts/100%")).toMatchObject({ view: "facts", subject: "100%" });
  });
});
