/** Queries that stay open, and update themselves. */

import { useRef, useState } from "preact/hooks";
import { post } from "../api/client";
import type { Check, Mistake } from "../api/types";
import { Code } from "../parts/code";
import { Empty, ErrorNote } from "../parts/notices";
import { count, counted } from "../parts/numbers";
import { Prose } from "../parts/prose";
import { RowsTable } from "../parts/rows_table";
import { useSettled } from "../parts/timing";
import { MOST_ANSWERS, useFollowed } from "../state/follow_query";
import { picture } from "../state/live";
import { closeQuery, type OpenQuery, openQueries, openQuery } from "../state/open_queries";

// Of the six connections that a browser opens to a server, one hears of commits, and two are for requests.
const MOST_STREAMS = 3;
const SHOWN = 100;

export function QueriesView() {
  return (
    <div class="stack">
      <AskForm />
      {openQueries.value.map((query, index) => (
        <QueryCard key={query.id} query={query} streamed={index < MOST_STREAMS} />
      ))}
      {!openQueries.value.length && (
        <section class="panel">
          <Empty title="No query is open.">
            <p>Ask one above. It stays here, and its answers change as the facts do.</p>
            <Examples />
          </Empty>
        </section>
      )}
    </div>
  );
}

/** A few queries to begin with, made from the predicates that are there. */
function Examples() {
  const predicates = [...picture.value.predicates.values()].filter(({ arity, facts }) => arity > 0 && arity <= 4 && facts > 0);
  const texts = predicates
    .filter(({ derived }) => derived)
    .concat(predicates.filter(({ derived }) => !derived))
    .slice(0, 3)
    .map(({ name, arity }) => `${name}(${["X", "Y", "Z", "W"].slice(0, arity).join(", ")})`);
  return (
    <p class="examples">
      {texts.map((text) => (
        <button key={text} type="button" onClick={() => openQuery(text)}>
          <Code text={text} />
        </button>
      ))}
    </p>
  );
}

function AskForm() {
  const [text, setText] = useState("");
  const [mistakes, setMistakes] = useState<readonly Mistake[]>([]);
  const latest = useRef("");
  latest.current = text;
  const check = useSettled(async (asked: string) => {
    try {
      const found = asked.trim() ? (await post<Check>("/check", { text: asked, as: "query" })).mistakes : [];
      if (latest.current === asked) setMistakes(found);
    } catch {
      setMistakes([]); // Asking the query will tell.
    }
  }, 300);
  const wrong = mistakes.some(({ severity }) => severity !== "warning");
  return (
    <form
      class="panel ask"
      aria-label="Ask a query"
      onSubmit={(event) => {
        event.preventDefault();
        if (!text.trim()) return;
        openQuery(text.trim());
        setText("");
        setMistakes([]);
      }}
    >
      <div class="row">
        <span class="prompt mono" aria-hidden="true">
          ?-
        </span>
        <input
          type="text"
          class="mono grow"
          placeholder="path(a, X), X != b"
          aria-label="Query"
          aria-invalid={wrong}
          aria-describedby="query-mistakes"
          autocomplete="off"
          spellcheck={false}
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value);
            check(event.currentTarget.value);
          }}
        />
        <button type="submit" class="primary" disabled={!text.trim()}>
          Open
        </button>
      </div>
      <ul id="query-mistakes" class="mistakes" role="status">
        {mistakes.map((mistake, index) => (
          <li key={index} class={mistake.severity ?? "error"}>
            <Prose text={mistake.message} />{" "}
            {mistake.hint && (
              <span class="quiet">
                <Prose text={mistake.hint} />
              </span>
            )}
          </li>
        ))}
      </ul>
    </form>
  );
}

function QueryCard({ query, streamed }: { query: OpenQuery; streamed: boolean }) {
  const [followed, again] = useFollowed(query.text, streamed);
  const [shown, setShown] = useState(SHOWN);
  const { state, update, total, variables, rows, warnings, error } = followed;
  const answered = state !== "asking" && state !== "ended";
  return (
    <section class="panel query" aria-label={`Query ${query.text}`}>
      <div class="panel-head">
        <h2 class="query-text">
          <Code text={query.text} />
        </h2>
        <span class="quiet query-state">
          {state === "live" && <span class="dot live" aria-hidden="true" />}
          {answered && `${state === "large" ? `more than ${count(MOST_ANSWERS)} answers` : counted(total, "answer")} · update ${count(update)}`}
          {state === "asking" && "asking …"}
          {state === "waiting" && " · reconnecting …"}
        </span>
        <button type="button" class="icon" aria-label={`Close ${query.text}`} onClick={() => closeQuery(query.id)}>
          ×
        </button>
      </div>
      {state === "large" && (
        <div class="note">
          <p>
            There are more than {count(MOST_ANSWERS)} answers, so that this query is not kept up to date. These are some of them,
            as of update {count(update)}. Add a condition to follow fewer.
          </p>
          <button type="button" onClick={again}>
            Ask again
          </button>
        </div>
      )}
      <ErrorNote error={error} again={again} />
      {warnings.map((warning) => (
        <p key={warning} class="note warning">
          <span>
            <Prose text={warning} />
          </span>
        </p>
      ))}
      {answered && !rows.length && <Empty title="No answers now." />}
      {rows.length > 0 && <RowsTable title={`Answers of ${query.text}`} columns={variables} rows={rows.slice(0, shown)} />}
      {rows.length > shown && (
        <p class="pages">
          <button type="button" onClick={() => setShown(shown + 5 * SHOWN)}>
            Show more
          </button>
          <span class="quiet">{count(shown)} shown</span>
        </p>
      )}
    </section>
  );
}
