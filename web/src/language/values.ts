/** Constants of facts: from the server's JSON to values, and to text that the language reads back as the same constant.
 *
 * Constants of different types are different (`1`, `1.0`, `"1"` are three), but JavaScript has one kind of number. So
 * numbers that it would confuse are kept as they were written.
 */

/** A number as it was written, where JavaScript's own would be another constant: `1.0`, `9007199254740993`. */
export interface ExactNumber {
  readonly number: string;
}

export interface Iri {
  readonly iri: string;
}

export interface Literal {
  readonly text: string;
  readonly language?: string;
  readonly datatype?: string;
}

export type Value = string | number | boolean | ExactNumber | Iri | Literal | Row;
/** The values of a fact; inside one, those of a record. */
export type Row = readonly Value[];
export type Prefixes = Readonly<Record<string, string>>;

type Reviver = (this: unknown, key: string, value: unknown, context?: { source?: string }) => unknown;

/** Parse JSON without losing the difference of `1` and `1.0`, or the last digits of large integers, in rows. */
export function parseJson<T>(text: string): T {
  return JSON.parse(text, exactly as (key: string, value: unknown) => unknown) as T;
}

const exactly: Reviver = function (_key, value, context) {
  const written = context?.source;
  if (typeof value !== "number" || written === undefined || !Array.isArray(this)) return value;
  const fractional = /[.eE]/.test(written);
  const confused = fractional ? Number.isInteger(value) : !Number.isSafeInteger(value);
  return confused ? { number: written } : value;
};

/** The same JSON again: exact numbers as they were written. */
export function writeJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(writeJson).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    if ("number" in value && typeof value.number === "string" && Object.keys(value).length === 1) return value.number;
    const members = Object.entries(value).filter(([, member]) => member !== undefined);
    return `{${members.map(([key, member]) => `${JSON.stringify(key)}:${writeJson(member)}`).join(",")}}`;
  }
  return JSON.stringify(value);
}

const KEYWORDS = new Set(["not", "true", "false", "distinct"]);
const LOWER_WORD = /^\p{Ll}[\p{L}\p{N}_]*$/u;
const LOCAL_NAME = /^[\p{L}\p{N}_]+(?:-+[\p{L}\p{N}_]+)*$/u;
const TO_ESCAPE = /["\\\x00-\x1f\x7f\x85\u2028\u2029]/g;
const SHORT_ESCAPES: Readonly<Record<string, string>> = {
  "\n": "\\n",
  "\t": "\\t",
  "\r": "\\r",
  "\b": "\\b",
  "\f": "\\f",
  '"': '\\"',
  "\\": "\\\\",
};

export function quote(text: string): string {
  const escape = (character: string) =>
    SHORT_ESCAPES[character] ?? `\\u${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
  return `"${text.replace(TO_ESCAPE, escape)}"`;
}

function iriText(iri: string, prefixes: Prefixes): string {
  for (const [name, namespace] of Object.entries(prefixes)) {
    const local = iri.slice(namespace.length);
    if (namespace !== "" && iri.startsWith(namespace) && LOCAL_NAME.test(local)) return `${name}:${local}`;
  }
  const escape = (character: string) => {
    const code = character.codePointAt(0) ?? 0;
    const digits = code.toString(16).toUpperCase();
    return code > 0xffff ? `\\U${digits.padStart(8, "0")}` : `\\u${digits.padStart(4, "0")}`;
  };
  return `<${iri.replace(/[\x00-\x20<>"{}|^`\\]/gu, escape)}>`;
}

function isRecord(value: object): value is Row {
  return Array.isArray(value);
}

/** A value as the language writes it. */
export function valueText(value: Value, prefixes: Prefixes = {}): string {
  if (typeof value === "string") return LOWER_WORD.test(value) && !KEYWORDS.has(value) ? value : quote(value);
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  if (isRecord(value)) return `[${value.map((field) => valueText(field, prefixes)).join(", ")}]`;
  if ("number" in value) return value.number;
  if ("iri" in value) return iriText(value.iri, prefixes);
  if (value.language) return `${quote(value.text)}@${value.language}`;
  return value.datatype ? `${quote(value.text)}^^${iriText(value.datatype, {})}` : quote(value.text);
}

/** What kind of constant a value is, for its colour and its alignment. */
export function valueKind(value: Value): "text" | "number" | "boolean" | "iri" | "literal" | "record" {
  if (typeof value === "string") return "text";
  if (typeof value === "boolean") return "boolean";
  if (typeof value === "object" && isRecord(value)) return "record";
  if (typeof value === "number" || "number" in value) return "number";
  return "iri" in value ? "iri" : "literal";
}

/** A fact as the language writes it, without the dot. */
export function factText(predicate: string, row: Row, prefixes: Prefixes = {}): string {
  return row.length ? `${predicate}(${row.map((value) => valueText(value, prefixes)).join(", ")})` : predicate;
}
