/** The rules, to be edited: mistakes as one types, what would change before it is applied, and undo.
 *
 * What is sent is the difference to the rules that the edit began with, so that what others have changed since stays.
 */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { change, get, post } from "../api/client";
import type { Change, Check, Mistake, Rules, Undoable, Updated, WhatIf } from "../api/types";
import { type Edit, editBetween } from "../language/statements";
import { ChangeTable } from "../parts/change_table";
import { Code } from "../parts/code";
import { Empty, ErrorNote } from "../parts/notices";
import { counted, duration } from "../parts/numbers";
import { Prose } from "../parts/prose";
import { RulesEditor, type RulesEditorHandle } from "../parts/rules_editor";
import { useSettled } from "../parts/timing";
import { onCommits } from "../state/live";
import { changesRules } from "../state/picture";
import { may } from "../state/session";

const AFTER_TYPING = 300; // milliseconds

interface Preview {
  readonly text: string;
  readonly change: Change;
}

interface Done {
  readonly title: string;
  readonly change: Change;
  readonly seconds: number;
}

export function RulesView() {
  const [rules, setRules] = useState<Rules>();
  const [text, setText] = useState("");
  const [error, setError] = useState<unknown>();
  const [others, setOthers] = useState(false);
  const [preview, setPreview] = useState<Preview>();
  const [done, setDone] = useState<Done>();
  const [busy, setBusy] = useState(false);
  const editor = useRef<RulesEditorHandle>(null);
  const mistakes = useMistakes(text, rules, editor);
  const edit = useMemo(() => editToSend(rules?.text ?? "", text), [rules, text]);
  const dirty = edit.added.length + edit.removed.length > 0;
  const wrong = mistakes.some(({ severity }) => severity !== "warning");

  const load = async () => {
    try {
      const found = await get<Rules>("/rules");
      setRules(found);
      setText(found.text);
      setOthers(false);
      setError(undefined);
      editor.current?.setText(found.text);
    } catch (problem) {
      setError(problem);
    }
  };

  useEffect(() => void load(), []);
  const own = useRef(0);
  const state = useRef({ dirty, update: 0 });
  state.current = { dirty, update: rules?.update ?? 0 };
  useEffect(
    () =>
      onCommits((commits) => {
        const news = commits.filter((commit) => changesRules(commit) && commit.update > Math.max(state.current.update, own.current));
        if (commits.length && !news.length) return;
        if (!state.current.dirty) void load();
        else if (news.length) setOthers(true);
      }),
    [],
  );

  const attempt = async (work: () => Promise<void>) => {
    setBusy(true);
    setError(undefined);
    try {
      await work();
    } catch (problem) {
      setError(problem);
    } finally {
      setBusy(false);
    }
  };

  const look = () =>
    attempt(async () => {
      setDone(undefined);
      const answer = await post<WhatIf>("/what-if?rows=20", bodyOf(edit));
      setPreview({ text, change: answer.change });
    });

  const apply = () =>
    attempt(async () => {
      const answer = await change<Updated>("/update?rows=20", bodyOf(edit));
      own.current = answer.update;
      setPreview(undefined);
      setDone({ title: `Applied as update ${answer.update}`, change: answer.change, seconds: answer.seconds });
      await load();
    });

  const undo = () =>
    attempt(async () => {
      const answer = await change<Updated>("/undo?rows=20", {});
      own.current = answer.update;
      setPreview(undefined);
      setDone({ title: `Taken back as update ${answer.update}`, change: answer.change, seconds: answer.seconds });
      await load();
    });

  const submit = () => {
    if (!dirty || wrong || busy || !may("rules")) return;
    void (preview?.text === text ? apply() : look());
  };

  if (!rules) return error ? <ErrorNote error={error} again={() => void load()} /> : <p class="quiet pad">Loading …</p>;
  const seen = preview?.text === text;
  return (
    <div class="split wide-left">
      <section class="panel editor-panel" aria-label="Rules">
        <div class="panel-head">
          <h2>Rules</h2>
          <span class="quiet">{counted(rules.rules.length, "rule")}</span>
        </div>
        {others && (
          <div class="note" role="status">
            <p>Somebody else has changed the rules. Your edit is kept, and only your difference will be applied.</p>
            <button type="button" onClick={() => void load()}>
              Drop mine and reload
            </button>
          </div>
        )}
        <RulesEditor handle={editor} text={text} readOnly={!may("rules")} onText={setText} onSubmit={submit} />
        <MistakeList mistakes={mistakes} onChoose={(mistake) => editor.current?.goTo(mistake)} />
        <div class="tools bottom">
          {may("rules") ? (
            <>
              <button type="button" class={seen ? "" : "primary"} disabled={!dirty || wrong || busy} onClick={() => void look()}>
                What would change?
              </button>
              <button type="button" class={seen ? "primary" : ""} disabled={!seen || wrong || busy} onClick={() => void apply()}>
                Apply
              </button>
              <span class="grow" />
              <button type="button" disabled={!dirty || busy} onClick={() => void load()}>
                Reset
              </button>
            </>
          ) : (
            <p class="quiet">You may read the rules, and not change them.</p>
          )}
        </div>
      </section>
      <div class="stack" aria-live="polite">
        <ErrorNote error={error} />
        {done && (
          <section class="panel" aria-label="What changed">
            <div class="panel-head">
              <h2>{done.title}</h2>
              <span class="quiet">{duration(done.seconds)}</span>
            </div>
            <ChangeTable change={done.change} nothing="No fact came or went." />
          </section>
        )}
        {dirty && (
          <section class="panel" aria-label="Your edit">
            <div class="panel-head">
              <h2>Your edit</h2>
            </div>
            <EditList edit={edit} />
          </section>
        )}
        {seen && (
          <section class="panel" aria-label="What would change">
            <div class="panel-head">
              <h2>What would change</h2>
              <span class="quiet">nothing is applied yet</span>
            </div>
            <ChangeTable change={preview.change} nothing="No fact would come or go." />
          </section>
        )}
        {!dirty && !done && (
          <section class="panel">
            <Empty title={rules.rules.length ? "Edit a rule, or write a new one." : "There are no rules yet."}>
              <p>
                You will see what would change before it is applied. <kbd>Ctrl</kbd> <kbd>Enter</kbd> looks, and applies when you
                have looked.
              </p>
            </Empty>
          </section>
        )}
        {rules.undo && may("rules") && <UndoPanel undo={rules.undo} disabled={busy || dirty} onUndo={() => void undo()} />}
      </div>
    </div>
  );
}

function UndoPanel({ undo, disabled, onUndo }: { undo: Undoable; disabled: boolean; onUndo: () => void }) {
  return (
    <section class="panel" aria-label="Undo">
      <div class="panel-head">
        <h2>Last change of rules</h2>
        <span class="quiet">update {undo.update}</span>
        <span class="grow" />
        <button type="button" disabled={disabled} onClick={onUndo}>
          Undo
        </button>
      </div>
      <RuleLines rules={undo.added} kind="came" />
      <RuleLines rules={undo.removed} kind="went" />
    </section>
  );
}

function EditList({ edit }: { edit: Edit }) {
  return (
    <>
      <RuleLines rules={edit.added.map(({ text }) => text)} kind="came" />
      <RuleLines rules={edit.removed.map(({ text }) => text)} kind="went" />
    </>
  );
}

function RuleLines({ rules, kind }: { rules: readonly string[]; kind: "came" | "went" }) {
  if (!rules.length) return null;
  return (
    <ul class={`half ${kind}`}>
      {rules.map((rule, index) => (
        <li key={index}>
          <span class="sign">{kind === "came" ? "+" : "−"}</span>
          <Code text={rule} />
        </li>
      ))}
    </ul>
  );
}

function MistakeList({ mistakes, onChoose }: { mistakes: readonly Mistake[]; onChoose: (mistake: Mistake) => void }) {
  return (
    <ul class="mistakes" role="status" aria-label="Mistakes">
      {mistakes.map((mistake, index) => (
        <li key={index} class={mistake.severity ?? "error"}>
          <button type="button" class="link" onClick={() => onChoose(mistake)}>
            Line {mistake.line}
          </button>{" "}
          <Prose text={mistake.message} />
        </li>
      ))}
    </ul>
  );
}

/** Declarations cannot be taken back, so that leaving one out is no edit. */
function editToSend(before: string, after: string): Edit {
  const edit = editBetween(before, after);
  return { added: edit.added, removed: edit.removed.filter(({ kind }) => kind !== "declaration") };
}

/** The edit as an update. Facts that stand among the rules are added as facts. */
function bodyOf({ added, removed }: Edit): object {
  const joined = (side: Edit["added"]) => (side.length ? side.map(({ text }) => text).join("\n") : undefined);
  return {
    add: joined(added.filter(({ kind }) => kind === "fact")),
    add_rules: joined(added.filter(({ kind }) => kind !== "fact")),
    remove_rules: joined(removed),
  };
}

/** What the server says is wrong with a text, a moment after the last key. */
function useMistakes(text: string, rules: Rules | undefined, editor: { current: RulesEditorHandle | null }): readonly Mistake[] {
  const [mistakes, setMistakes] = useState<readonly Mistake[]>([]);
  const last = useRef(text);
  last.current = text;
  const tell = (found: readonly Mistake[]) => {
    setMistakes(found);
    editor.current?.show(found);
  };
  const check = useSettled(async (asked: string) => {
    try {
      const answer = await post<Check>("/check", { text: asked, as: "program", replace: true });
      if (last.current === asked) tell(answer.mistakes);
    } catch {
      if (last.current === asked) tell([]); // Nothing is known of mistakes; applying the text will tell.
    }
  }, AFTER_TYPING);
  useEffect(() => {
    if (!rules) return;
    if (text === rules.text) tell([]);
    else check(text);
  }, [text, rules]);
  return mistakes;
}
