/** Mistakes in an editor: a wavy line under the place, and the message under the line. */

import { type Extension, RangeSetBuilder, StateEffect, StateField, type Text } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, WidgetType } from "@codemirror/view";
import type { Mistake } from "../api/types";
import { proseParts } from "../parts/prose";

const setMistakes = StateEffect.define<readonly Mistake[]>();

class Message extends WidgetType {
  constructor(readonly mistake: Mistake) {
    super();
  }

  override eq(other: Message): boolean {
    return other.mistake.message === this.mistake.message && other.mistake.hint === this.mistake.hint;
  }

  override toDOM(): HTMLElement {
    const block = document.createElement("div");
    block.className = `cm-mistake cm-${this.mistake.severity ?? "error"}`;
    const message = block.appendChild(document.createElement("div"));
    message.className = "cm-message";
    message.append(...inline(this.mistake.message));
    if (this.mistake.hint) {
      const hint = message.appendChild(document.createElement("span"));
      hint.className = "cm-hint";
      hint.append(...inline(this.mistake.hint));
    }
    return block;
  }
}

function inline(message: string): (string | HTMLElement)[] {
  return proseParts(message).map(({ code, text }) => {
    if (!code) return text;
    const piece = document.createElement("code");
    piece.append(text);
    return piece;
  });
}

/** Where a mistake is in a text, as offsets. Lines and columns count from one; what lies outside is moved inside. */
export function placeOf(text: Text, mistake: Mistake): { from: number; to: number; end: number } {
  const line = text.line(Math.min(Math.max(1, mistake.line), text.lines));
  const from = Math.min(line.from + Math.max(0, mistake.column - 1), line.to);
  const given = mistake.end_column ? line.from + mistake.end_column - 1 : wordEnd(line.text, from - line.from) + line.from;
  return { from, to: Math.max(from, Math.min(given, line.to)), end: line.to };
}

function wordEnd(line: string, at: number): number {
  return at + (/^[\p{L}\p{N}_:?$]+|^./u.exec(line.slice(at))?.[0].length ?? 0);
}

function decorations(text: Text, mistakes: readonly Mistake[]): DecorationSet {
  const placed = mistakes.map((mistake) => ({ mistake, ...placeOf(text, mistake) })).sort((a, b) => a.from - b.from);
  const builder = new RangeSetBuilder<Decoration>();
  const below = (end: number) => placed.filter((other) => other.end === end);
  placed.forEach((each, index) => {
    const start = each.to > each.from ? each.from : Math.max(each.from - 1, text.lineAt(each.from).from);
    if (each.to > start) builder.add(start, Math.max(each.to, start + 1), Decoration.mark({ class: `cm-wrong cm-${each.mistake.severity ?? "error"}` }));
    if (placed[index + 1]?.end === each.end) return;
    for (const { mistake } of below(each.end)) {
      builder.add(each.end, each.end, Decoration.widget({ widget: new Message(mistake), block: true, side: 1 }));
    }
  });
  return builder.finish();
}

const field = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(shown, transaction) {
    for (const effect of transaction.effects) {
      if (effect.is(setMistakes)) return decorations(transaction.state.doc, effect.value);
    }
    return shown.map(transaction.changes);
  },
  provide: (each) => EditorView.decorations.from(each),
});

export const mistakeExtension: Extension = field;

export function showMistakes(view: EditorView, mistakes: readonly Mistake[]): void {
  view.dispatch({ effects: setMistakes.of(mistakes) });
}
