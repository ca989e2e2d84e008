/** The editor of programs as a component. It is loaded when it is first shown. */

import { useEffect, useRef } from "preact/hooks";
import type { Mistake } from "../api/types";

export interface RulesEditorHandle {
  setText(text: string): void;
  show(mistakes: readonly Mistake[]): void;
  goTo(mistake: Mistake): void;
}

export interface RulesEditorProps {
  /** Where to put what can be done to the editor, while there is one. */
  readonly handle: { current: RulesEditorHandle | null };
  readonly text: string;
  readonly readOnly: boolean;
  readonly onText: (text: string) => void;
  readonly onSubmit: () => void;
}

export function RulesEditor(props: RulesEditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const latest = useRef(props);
  latest.current = props;
  useEffect(() => {
    let close: (() => void) | undefined = () => (close = undefined);
    void import("../editor/editor").then(({ Editor }) => {
      if (!close || !host.current) return;
      const editor = new Editor(host.current, {
        text: latest.current.text,
        label: "Rules",
        readOnly: latest.current.readOnly,
        onText: (text) => latest.current.onText(text),
        onSubmit: () => latest.current.onSubmit(),
      });
      props.handle.current = {
        setText: (text) => (editor.text = text),
        show: (mistakes) => editor.show(mistakes),
        goTo: (mistake) => editor.goTo(mistake),
      };
      close = () => editor.close();
    });
    return () => {
      close?.();
      props.handle.current = null;
    };
  }, []);
  return <div class="editor" ref={host} />;
}
