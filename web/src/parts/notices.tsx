/** Small parts that several views share: errors, empty views, counts that move. */

import type { ComponentChildren } from "preact";
import { messageOf, Problem } from "../api/client";
import type { Moved } from "../state/picture";
import { short } from "./numbers";
import { Prose } from "./prose";

export function ErrorNote({ error, again }: { error: unknown; again?: () => void }) {
  if (error === undefined || error === null) return null;
  const lines = messageOf(error).split("\n");
  return (
    <div class="note error" role="alert">
      <p>
        <Prose text={lines[0] ?? ""} />
      </p>
      {lines.length > 1 && <pre>{lines.slice(1).join("\n")}</pre>}
      {again && !(error instanceof Problem && error.status === 422) && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
    </div>
  );
}

/** What an update has just done to a count. A new update makes a new element, so that it lights up anew. */
export function Flash({ moved }: { moved: Moved | undefined }) {
  if (!moved) return null;
  return (
    <span key={moved.update} class="flash" aria-hidden="true">
      {moved.added > 0 && <span class="came">+{short(moved.added)}</span>}
      {moved.removed > 0 && <span class="went">−{short(moved.removed)}</span>}
    </span>
  );
}
