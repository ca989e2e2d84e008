/** Adding and deleting explicit facts by hand. */

import { useState } from "preact/hooks";
import { change, messageOf } from "../api/client";
import type { Updated } from "../api/types";
import { counted } from "../parts/numbers";
import { goTo } from "../state/route";

export function ChangeFacts({ predicate, arity }: { predicate: string; arity: number | undefined }) {
  const [text, setText] = useState("");
  const [told, setTold] = useState<{ message: string; failed: boolean }>();
  const [busy, setBusy] = useState(false);
  const example = predicate && arity ? `${predicate}(${["a", "b", "c", "d"].slice(0, arity).join(", ")}).` : "edge(a, b).";

  const send = async (side: "add" | "delete") => {
    setBusy(true);
    try {
      const { change: done } = await change<Updated>("/update", { [side]: finished(text) });
      const [came, went] = [done.added, done.removed].map((half) => Object.values(half).reduce((sum, { count }) => sum + count, 0));
      setTold({ message: came || went ? `${counted(came ?? 0, "fact")} came, ${went} went` : "Nothing changed.", failed: false });
      const touched = Object.keys(done.added)[0];
      setText("");
      if (!predicate && touched) goTo("facts", touched);
    } catch (error) {
      setTold({ message: messageOf(error), failed: true });
    } finally {
      setBusy(false);
    }
  };

  return (
    <form
      class="panel change-facts"
      aria-label="Change facts"
      onSubmit={(event) => {
        event.preventDefault();
        void send("add");
      }}
    >
      <input
        type="text"
        class="mono grow"
        placeholder={example}
        aria-label="Facts to add or delete"
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <button type="submit" class="primary" disabled={busy || !text.trim()}>
        Add
      </button>
      <button type="button" disabled={busy || !text.trim()} onClick={() => void send("delete")}>
        Delete
      </button>
      <p class={told?.failed ? "told failed" : "told"} role="status">
        {told?.message}
      </p>
    </form>
  );
}

/** The text with the dot that is easily forgotten. */
export function finished(text: string): string {
  return /\.\s*$/.test(text) ? text : `${text.trim()}.`;
}
