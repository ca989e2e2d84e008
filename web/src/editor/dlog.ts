/** The language for CodeMirror: colours, brackets, comments. Line by line, which is enough, as no token spans lines. */

import { HighlightStyle, LanguageSupport, StreamLanguage, type StringStream, syntaxHighlighting } from "@codemirror/language";
import { tags } from "@lezer/highlight";

const AGGREGATES = /^(?:(?:count|count_distinct|sum|min|max|avg|median|stddev|quantile)(?=\s*[({])|(?:any|all|list|concat)(?=\s*\{))/;
const NAME = /^[\p{L}_][\p{L}\p{N}_]*(?:-+[\p{L}\p{N}_]+(?=[\p{L}\p{N}_-]*:))*(?::[\p{L}\p{N}_]+(?:-+[\p{L}\p{N}_]+)*)?/u;

interface State {
  /** Whether an operand has just ended, after which `%` and `<` are operators. */
  operand: boolean;
}

/** The kind of the next token. */
export function nextToken(stream: StringStream, state: State): string | null {
  if (stream.eatSpace()) return null;
  const operand = state.operand;
  state.operand = false;
  if (stream.match(/^(?:#|\/\/).*/)) return "comment";
  if (stream.peek() === "%" && !(operand && stream.match(/^%(?=\s*[\w(?-][^%]*[,.)])/))) {
    stream.skipToEnd();
    return "comment";
  }
  if (stream.match(/^(?:"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?)(?:@[A-Za-z0-9-]+)?/)) return operandOf(state, "string");
  if (!operand && stream.match(/^<[^\s<>"{}|^`\\]*>/)) return operandOf(state, "link");
  if (stream.match(/^@?prefix\b/i) || stream.match(/^@[a-z]+/)) return "meta";
  if (stream.match(/^(?:[?$][\p{L}\p{N}_]+|[\p{Lu}_][\p{L}\p{N}_]*(?![\p{L}\p{N}_:([]))/u)) return operandOf(state, "variableName");
  if (stream.match(/^\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/)) return operandOf(state, "number");
  if (stream.match(/^not(?![\p{L}\p{N}_])/u) || stream.match(/^!(?!=)/)) return "keyword";
  if (stream.match(/^(?:true|false)(?![\p{L}\p{N}_])/u)) return operandOf(state, "bool");
  if (stream.match(AGGREGATES) || (operand && stream.match(/^in(?:\s+last(?=\s+\d)|(?=\s+range\s*\())/))) return "keyword";
  if (stream.match(/^distinct(?=\s+[^\s,)])/)) return "keyword";
  if (stream.match(NAME)) return operandOf(state, /^\s*[([]/.test(stream.string.slice(stream.pos)) ? "function" : "atom");
  if (stream.match(/^(?::-|\?-)/)) return "definitionOperator";
  if (stream.match(/^(?:<=|>=|!=|\^\^|[=<>+*/%-])/)) return "operator";
  const symbol = stream.next();
  state.operand = symbol === ")" || symbol === "]";
  return /[()[\]{},.:;]/.test(symbol ?? "") ? "punctuation" : null;
}

function operandOf(state: State, kind: string): string {
  state.operand = true;
  return kind;
}

const language = StreamLanguage.define<State>({
  name: "dlog",
  startState: () => ({ operand: false }),
  copyState: (state) => ({ ...state }),
  token: nextToken,
  languageData: { commentTokens: { line: "%" }, closeBrackets: { brackets: ["(", "[", '"'] } },
  tokenTable: {
    link: tags.url,
    bool: tags.bool,
    function: tags.function(tags.variableName),
    atom: tags.atom,
    definitionOperator: tags.definitionOperator,
    variableName: tags.local(tags.variableName),
  },
});

// Colours are variables of the page's style, so that light and dark need nothing here.
const colours = HighlightStyle.define([
  { tag: tags.comment, color: "var(--code-comment)", fontStyle: "italic" },
  { tag: tags.string, color: "var(--code-string)" },
  { tag: [tags.number, tags.bool], color: "var(--code-number)" },
  { tag: tags.url, color: "var(--code-iri)" },
  { tag: tags.local(tags.variableName), color: "var(--code-variable)" },
  { tag: tags.function(tags.variableName), color: "var(--code-predicate)", fontWeight: "600" },
  { tag: tags.atom, color: "var(--code-string)" },
  { tag: [tags.keyword, tags.meta, tags.definitionOperator], color: "var(--code-keyword)" },
  { tag: [tags.operator, tags.punctuation], color: "var(--code-punctuation)" },
]);

export function dlog(): LanguageSupport {
  return new LanguageSupport(language, syntaxHighlighting(colours));
}
