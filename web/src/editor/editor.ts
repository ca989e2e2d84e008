/** The editor of programs: CodeMirror, in a shadow root.
 *
 * CodeMirror writes style sheets while it runs. In a document it would add `<style>` elements, which the page's content
 * security policy forbids; in a shadow root it uses constructed sheets, which need no permission. This module is loaded
 * when the first editor is shown.
 */

import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching } from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers } from "@codemirror/view";
import type { Mistake } from "../api/types";
import { dlog } from "./dlog";
import { mistakeExtension, placeOf, showMistakes } from "./mistakes";

const look = EditorView.theme({
  "&": { fontSize: "13.5px", color: "var(--ink)", backgroundColor: "var(--surface)", height: "100%" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.65" },
  ".cm-content": { caretColor: "var(--ink)", padding: "10px 0" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--faint)", border: "none", paddingLeft: "6px" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--tint)" },
  ".cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground": {
    backgroundColor: "var(--selection)",
  },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--selection)", outline: "none" },
  ".cm-wrong": { textDecoration: "underline wavy var(--went) 1px", textUnderlineOffset: "4px" },
  ".cm-wrong.cm-warning": { textDecorationColor: "var(--warn)" },
  ".cm-mistake": {
    fontFamily: "var(--sans)",
    fontSize: "13px",
    lineHeight: "1.4",
    // Heights of blocks are measured without margins.
    padding: "2px 8px 6px 6px",
    color: "var(--ink)",
    whiteSpace: "pre-wrap",
  },
  ".cm-message": {
    padding: "5px 10px",
    borderLeft: "3px solid var(--went)",
    backgroundColor: "var(--went-tint)",
    borderRadius: "0 6px 6px 0",
  },
  ".cm-warning > .cm-message": { borderLeftColor: "var(--warn)", backgroundColor: "var(--warn-tint)" },
  ".cm-mistake code": {
    fontFamily: "var(--mono)",
    fontSize: "12px",
    padding: "1px 4px",
    borderRadius: "4px",
    background: "color-mix(in srgb, currentcolor 9%, transparent)",
  },
  ".cm-hint": { display: "block", color: "var(--muted)" },
});

export interface EditorOptions {
  readonly text: string;
  readonly label: string;
  readonly readOnly: boolean;
  readonly onText: (text: string) => void;
  /** What Ctrl-Enter and Cmd-Enter do. */
  readonly onSubmit: () => void;
}

export class Editor {
  private readonly view: EditorView;

  constructor(host: HTMLElement, options: EditorOptions) {
    const root = host.shadowRoot ?? host.attachShadow({ mode: "open", delegatesFocus: true });
    const submit = () => {
      options.onSubmit();
      return true;
    };
    const extensions = [
      lineNumbers(),
      history(),
      drawSelection(),
      bracketMatching(),
      highlightActiveLine(),
      highlightActiveLineGutter(),
      dlog(),
      mistakeExtension,
      look,
      EditorView.lineWrapping,
      EditorState.readOnly.of(options.readOnly),
      EditorView.contentAttributes.of({ "aria-label": options.label, spellcheck: "false" }),
      // Escape, then Tab, leaves the editor; Tab alone indents.
      keymap.of([{ key: "Mod-Enter", run: submit }, ...defaultKeymap, ...historyKeymap, indentWithTab]),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) options.onText(update.state.doc.toString());
      }),
    ];
    this.view = new EditorView({ state: EditorState.create({ doc: options.text, extensions }), parent: root, root });
  }

  get text(): string {
    return this.view.state.doc.toString();
  }

  /** Put another text in place of this one, as one step that can be undone. */
  set text(text: string) {
    if (text !== this.text) this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: text } });
  }

  show(mistakes: readonly Mistake[]): void {
    showMistakes(this.view, mistakes);
  }

  /** Put the cursor to a mistake. */
  goTo(mistake: Mistake): void {
    const { from } = placeOf(this.view.state.doc, mistake);
    this.view.dispatch({ selection: { anchor: from }, scrollIntoView: true });
    this.view.focus();
  }

  close(): void {
    this.view.destroy();
  }
}
