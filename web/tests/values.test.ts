import { describe, expect, test } from "vitest";
import { factText, parseJson, type Row, valueText, writeJson } from "../src/language/values";

describe("values", () => {
  test.each([
    ["ada", "ada"],
    ["Ada", '"Ada"'],
    ["two words", '"two words"'],
    ["not", '"not"'],
    ["", '""'],
    ['a "b" \\ \n', '"a \\"b\\" \\\\ \\n"'],
    ["\u2028", '"\\u2028"'],
    ["<img src=x onerror=alert(1)>", '"<img src=x onerror=alert(1)>"'],
    [42, "42"],
    [-7, "-7"],
    [true, "true"],
    [{ number: "1.0" }, "1.0"],
    [{ iri: "http://example.org/it" }, "ex:it"],
    [{ iri: "http://elsewhere.org/a b" }, "<http://elsewhere.org/a\\u0020b>"],
    [{ text: "chat", language: "fr" }, '"chat"@fr'],
    [{ text: "1", datatype: "http://t/x" }, '"1"^^<http://t/x>'],
    [[], "[]"],
    [["a", [{ number: "1.0" }, "B c"], { iri: "http://example.org/it" }], '[a, [1.0, "B c"], ex:it]'],
  ] as const)("%j is written as %s", (value, text) => {
    expect(valueText(value, { ex: "http://example.org/" })).toBe(text);
  });

  test("facts have no brackets where they have no arguments", () => {
    expect(factText("rain", [])).toBe("rain");
    expect(factText("edge", ["a", { number: "2.0" }])).toBe("edge(a, 2.0)");
    expect(factText("at", ["a", [1, 2]])).toBe("at(a, [1, 2])");
  });

  test("JSON comes back as it was written", () => {
    const text = '{"rows":[["a",1,true,{"iri":"x"}]],"seconds":0.5}';
    expect(writeJson(parseJson(text))).toBe(text);
  });

  // Older JavaScript does not tell how a number was written; browsers do.
  const told = parseJson<Row>("[1.0]")[0] !== 1;
  test.runIf(told)("1 and 1.0 stay apart in rows, and large integers whole", () => {
    const parsed = parseJson<{ rows: Row[]; seconds: number }>('{"rows":[[1,1.0,9007199254740993,1.5]],"seconds":1.0}');
    expect(parsed).toEqual({ rows: [[1, { number: "1.0" }, { number: "9007199254740993" }, 1.5]], seconds: 1 });
    expect(writeJson(parsed.rows)).toBe("[[1,1.0,9007199254740993,1.5]]");
  });
});
