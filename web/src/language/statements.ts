/** A program's text cut into statements, so that an edited text can be compared with the rules that are in force.
 *
 * This knows just enough of the language for that: where strings, IRIs and comments are, and which dot ends a statement.
 * Whether a statement makes sense is the server's to say.
 */

export interface Statement {
  readonly kind: "declaration" | "fact" | "rule";
  /** Its tokens with one blank between them: equal for two statements that differ in layout alone. */
  readonly key: string;
  readonly text: string;
  readonly from: number;
  readonly to: number;
}

// In the order in which they are tried. A `%` between two operands is an operator; elsewhere it begins a comment.
const TOKENS: readonly [kind: string, pattern: RegExp][] = [
  ["blank", /\s+/y],
  ["comment", /#[^\n]*|\/\/[^\n]*/y],
  ["string", /"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*'/y],
  ["iri", /<[^\s<>"{}|^`\\]*>/y],
  ["prefix", /@?prefix[ \t]+[\w-]*:(?!-)(?:\s*<[^>\s]*>|[ \t]*[^<>\s]+)(?:\s*\.)?/iy],
  ["number", /\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/y],
  ["name", /[\p{L}_][\p{L}\p{N}_]*(?:-+[\p{L}\p{N}_]+(?=[\p{L}\p{N}_-]*:))*(?::[\p{L}\p{N}_]+(?:-+[\p{L}\p{N}_]+)*)?/uy],
  ["name", /[?$@][\p{L}\p{N}_]+/uy],
  ["symbol", /:-|\?-|<=|>=|!=|\^\^/y],
  ["dot", /\./y],
  ["other", /[\s\S]/uy],
];
const MODULO = /%(?=\(|[ \t]*(?:-?\d[\w.]*|[A-Z_]\w*|\?\w+)[ \t]*(?:[-+*/%=!<>,.)\]]|\r?\n|$))/y;
const LINE_COMMENT = /%[^\n]*/y;

interface Token {
  readonly kind: string;
  readonly text: string;
}

function tokenAt(text: string, at: number, before: Token | undefined): Token {
  if (text[at] === "%") {
    const operand = before !== undefined && (/^(?:name|number)$/.test(before.kind) || before.text === ")");
    MODULO.lastIndex = at;
    if (operand && MODULO.test(text)) return { kind: "other", text: "%" };
    LINE_COMMENT.lastIndex = at;
    return { kind: "comment", text: LINE_COMMENT.exec(text)?.[0] ?? "%" };
  }
  for (const [kind, pattern] of TOKENS) {
    pattern.lastIndex = at;
    const found = pattern.exec(text)?.[0];
    if (found !== undefined && (kind !== "prefix" || before === undefined)) return { kind, text: found };
  }
  throw new Error("every character is a token");
}

/** The statements of a text. What follows the last dot is a statement as well, though the server will refuse it. */
export function statementsOf(text: string): Statement[] {
  const found: Statement[] = [];
  let tokens: string[] = [];
  let from = 0;
  let before: Token | undefined;
  let at = 0;
  const finish = (to: number) => {
    if (tokens.length) found.push({ kind: kindOf(tokens), key: tokens.join(" "), text: text.slice(from, to), from, to });
    tokens = [];
    before = undefined;
  };
  while (at < text.length) {
    const token = tokenAt(text, at, before);
    const end = at + token.text.length;
    if (token.kind !== "blank" && token.kind !== "comment") {
      if (!tokens.length) from = at;
      tokens.push(token.kind === "string" ? asOneQuote(token.text) : token.text);
      before = token;
      if (token.kind === "dot" || token.kind === "prefix") finish(end);
    }
    at = end;
  }
  finish(text.trimEnd().length);
  return found;
}

function kindOf(tokens: readonly string[]): Statement["kind"] {
  if (/^@(?:equality|expire|constraint|key)$/.test(tokens[0] ?? "")) return "rule"; // They come and go as rules do.
  if (/^@|^prefix[ \t]/i.test(tokens[0] ?? "")) return "declaration";
  return tokens.includes(":-") || tokens.includes("?-") ? "rule" : "fact";
}

/** `'a'` and `"a"` are one constant, and a quoted word is the word. */
function asOneQuote(text: string): string {
  const content = text.slice(1, -1);
  return text.startsWith("'") && !content.includes('"') && !content.includes("\\") ? `"${content}"` : text;
}

export interface Edit {
  readonly added: Statement[];
  readonly removed: Statement[];
}

/** What turns one text into the other, statement by statement. */
export function editBetween(before: string, after: string): Edit {
  const [old, fresh] = [statementsOf(before), statementsOf(after)];
  const [oldKeys, freshKeys] = [new Set(old.map(({ key }) => key)), new Set(fresh.map(({ key }) => key))];
  return {
    added: fresh.filter(({ key }) => !oldKeys.has(key)),
    removed: old.filter(({ key }) => !freshKeys.has(key)),
  };
}
