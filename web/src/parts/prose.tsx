/** A message of the server, in which pieces of programs stand between backticks. */

export interface ProsePart {
  readonly code: boolean;
  readonly text: string;
}

export function proseParts(message: string): ProsePart[] {
  const pieces = message.split("`");
  // A backtick that is never closed is a character like any other.
  const closed = pieces.length % 2 === 1 ? pieces : [...pieces.slice(0, -2), pieces.slice(-2).join("`")];
  return closed.map((text, index) => ({ code: index % 2 === 1, text })).filter(({ text }) => text);
}

export function Prose({ text }: { text: string }) {
  return (
    <>
      {proseParts(text).map(({ code, text: part }, index) => (code ? <code key={index} class="inline">{part}</code> : part))}
    </>
  );
}
