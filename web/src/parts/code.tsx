/** A piece of a program as coloured text that is not edited: a rule in a list, a fact in a proof.
 *
 * It is made of text nodes, so that nothing in a constant can become markup.
 */

const PARTS: readonly [kind: string, pattern: RegExp][] = [
  ["string", /"(?:[^"\\\n]|\\[^\n])*"(?:@[A-Za-z0-9-]+)?|'(?:[^'\\\n]|\\[^\n])*'/y],
  ["iri", /<[^\s<>"{}|^`\\]*>/y],
  ["keyword", /:-|\?-|@[a-z]+|\bnot\b|\bin last\b|\b(?:count|sum|min|max|avg|median|stddev|quantile)(?=\(| \{)/y],
  ["variable", /\?[\p{L}\p{N}_]+|[\p{Lu}_][\p{L}\p{N}_]*(?![\p{L}\p{N}_:(])/uy],
  ["number", /\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/y],
  ["predicate", /[\p{L}_][\p{L}\p{N}_:-]*(?=[([])/uy],
  ["name", /[\p{L}_][\p{L}\p{N}_]*(?:-*:[\p{L}\p{N}_]+(?:-+[\p{L}\p{N}_]+)*)?/uy],
  ["punctuation", /[()[\],.;=<>!+*/%^-]+/y],
];

export interface CodePart {
  readonly kind: string | undefined;
  readonly text: string;
}

export function codeParts(text: string): CodePart[] {
  const parts: CodePart[] = [];
  let at = 0;
  while (at < text.length) {
    const part = partAt(text, at);
    parts.push(part);
    at += part.text.length;
  }
  return parts;
}

function partAt(text: string, at: number): CodePart {
  for (const [kind, pattern] of PARTS) {
    pattern.lastIndex = at;
    const found = pattern.exec(text)?.[0];
    if (found) return { kind, text: found };
  }
  return { kind: undefined, text: text[at] ?? "" };
}

export function Code({ text }: { text: string }) {
  return (
    <code class="code">
      {codeParts(text).map(({ kind, text: part }, index) =>
        kind ? (
          <span key={index} class={`code-${kind}`}>
            {part}
          </span>
        ) : (
          part
        ),
      )}
    </code>
  );
}
