/** The facts of a predicate, a page at a time: filtered by the server, and lit up where an update has just changed them. */

import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../api/client";
import type { Commit, FactPage, Predicate } from "../api/types";
import { factText, type Value, valueText, writeJson } from "../language/values";
import { Empty, ErrorNote } from "../parts/notices";
import { count, counted } from "../parts/numbers";
import { RowsTable } from "../parts/rows_table";
import { useThrottled } from "../parts/timing";
import { faded, LIGHT, type LitRow, type Moves, readAgain, unlit } from "../state/lit_rows";
import { onCommits, picture, prefixes } from "../state/live";
import { linkTo } from "../state/route";
import { may } from "../state/session";
import { ChangeFacts } from "./change_facts";
import { PredicateList } from "./predicates";

const PAGE = 100;
const AT_MOST_EVERY = 400; // milliseconds
const MOST_PARTS = 10;

interface Wanted {
  readonly filter: string;
  readonly where: Readonly<Record<number, Value>>;
  readonly explicit: boolean;
}

const ALL: Wanted = { filter: "", where: {}, explicit: false };

export function FactsView({ subject }: { subject: string }) {
  const known = picture.value.predicates;
  const name = subject || [...known.keys()].sort()[0] || "";
  return (
    <div class={subject ? "split chosen" : "split"}>
      <PredicateList selected={name} />
      <div class="stack">
        {name ? <Facts key={name} predicate={name} /> : <NoFacts />}
        {may("write") && <ChangeFacts predicate={name} arity={known.get(name)?.arity} />}
      </div>
    </div>
  );
}

function NoFacts() {
  if (picture.value.stale) return <p class="quiet pad">Loading …</p>;
  return (
    <section class="panel">
      <Empty title="Nothing is known yet.">
        <p>Add facts below, write rules, or send an update to this server.</p>
      </Empty>
    </section>
  );
}

function Facts({ predicate }: { predicate: string }) {
  const [wanted, setWanted] = useState<Wanted>(ALL);
  const [cursors, setCursors] = useState<readonly (string | null)[]>([null]);
  const { page, rows, error, again } = useFactPage(predicate, wanted, cursors.at(-1) ?? null);
  const known = picture.value.predicates.get(predicate);
  const want = (change: Partial<Wanted>) => {
    setWanted({ ...wanted, ...change });
    setCursors([null]);
  };
  const narrowed = wanted.filter !== "" || Object.keys(wanted.where).length > 0;
  const arity = page?.arity ?? known?.arity ?? 0;
  const columns = Array.from({ length: arity }, (_, index) => columnName(known, index));
  const first = (cursors.length - 1) * PAGE;
  return (
    <section class="panel grow" aria-label={`Facts of ${predicate}`}>
      <div class="panel-head">
        <h2 class="mono">
          {predicate}
          <span class="arity">/{arity}</span>
        </h2>
        <span class="quiet">
          {known && counted(known.facts, "fact")}
          {known?.derived && known.explicit ? `, ${count(known.explicit)} explicit` : ""}
          {known?.text && ` · ${known.text}`}
        </span>
      </div>
      <div class="tools">
        <FilterBox onFilter={(filter) => want({ filter })} />
        <label class="check">
          <input type="checkbox" checked={wanted.explicit} onChange={(event) => want({ explicit: event.currentTarget.checked })} />
          explicit only
        </label>
        {Object.entries(wanted.where).map(([column, value]) => (
          <button
            key={column}
            type="button"
            class="chip"
            aria-label={`No longer only column ${columnName(known, Number(column))} = ${valueText(value, prefixes.value)}`}
            onClick={() => want({ where: without(wanted.where, Number(column)) })}
          >
            {columnName(known, Number(column))} = {valueText(value, prefixes.value)} <span aria-hidden="true">×</span>
          </button>
        ))}
      </div>
      <ErrorNote error={error} again={again} />
      {page && rows.length > 0 && (
        <RowsTable
          title={`Facts of ${predicate}`}
          columns={columns}
          rows={rows}
          onValue={(column, value) => want({ where: { ...wanted.where, [column]: value } })}
          onValueTitle="Only facts with this value"
          action={(row) => <Why predicate={predicate} row={row} />}
        />
      )}
      {page && !rows.length && (
        <Empty title={page.next ? "Nothing found so far." : narrowed ? "No fact is like that." : "There are no facts now."}>
          {page.next && <p>A part of the facts has been searched. Go on with the next page.</p>}
        </Empty>
      )}
      {!page && !error && <p class="quiet pad">Loading …</p>}
      {page && (
        <nav class="pages" aria-label="Pages">
          <button type="button" disabled={cursors.length === 1} onClick={() => setCursors(cursors.slice(0, -1))}>
            ← Previous
          </button>
          <span class="quiet">
            {page.total !== null && page.rows.length > 0
              ? `${count(first + 1)}–${count(first + page.rows.length)} of ${count(page.total)}`
              : `page ${cursors.length}`}
          </span>
          <button type="button" disabled={!page.next} onClick={() => setCursors([...cursors, page.next])}>
            Next →
          </button>
        </nav>
      )}
    </section>
  );
}

/** The declared name of a column, or its number. */
function columnName(predicate: Predicate | undefined, column: number): string {
  const name = predicate?.columns[column] ?? "";
  return name && name !== `c${column}` ? name : String(column + 1);
}

function Why({ predicate, row }: { predicate: string; row: LitRow }) {
  const fact = factText(predicate, row.row, prefixes.value);
  return (
    <a class="why" href={linkTo("proofs", fact)} tabIndex={-1} aria-label={`Why ${fact}`}>
      why?
    </a>
  );
}

function FilterBox({ onFilter }: { onFilter: (text: string) => void }) {
  const [text, setText] = useState("");
  const ask = useThrottled(onFilter, 250);
  return (
    <input
      type="search"
      class="filter"
      placeholder="Filter facts"
      aria-label="Filter facts"
      value={text}
      onInput={(event) => {
        setText(event.currentTarget.value);
        ask(event.currentTarget.value);
      }}
    />
  );
}

function without(where: Readonly<Record<number, Value>>, column: number): Record<number, Value> {
  return Object.fromEntries(Object.entries(where).filter(([key]) => Number(key) !== column));
}

/** One page of facts, read again whenever a commit has touched the predicate. */
function useFactPage(predicate: string, wanted: Wanted, cursor: string | null) {
  const [page, setPage] = useState<FactPage>();
  const [rows, setRows] = useState<readonly LitRow[]>([]);
  const [error, setError] = useState<unknown>();
  const place = writeJson([wanted, cursor]);
  const shown = useRef("");
  const moved = useRef<Moves>({ came: 0, went: 0 });

  const read = async () => {
    try {
      const found = await search(predicate, wanted, cursor, () => latest.current === place);
      if (latest.current !== place) return;
      const same = shown.current === place;
      shown.current = place;
      setPage(found);
      setError(undefined);
      const moves = moved.current;
      moved.current = { came: 0, went: 0 };
      setRows((before) => (same ? readAgain(before, found.rows, Date.now(), moves) : unlit(found.rows)));
    } catch (problem) {
      if (latest.current === place) setError(problem);
    }
  };
  const latest = useRef(place);
  latest.current = place;
  const readSoon = useThrottled(() => void read(), AT_MOST_EVERY);

  useEffect(() => void read(), [predicate, place]);
  const hear = (commits: readonly Commit[]) => {
    if (commits.length && !commits.some((commit) => touches(commit, predicate))) return;
    for (const { added, removed } of commits) {
      moved.current = { came: moved.current.came + (added[predicate] ?? 0), went: moved.current.went + (removed[predicate] ?? 0) };
    }
    readSoon();
  };
  useEffect(() => onCommits(hear), [predicate]);
  useEffect(() => {
    if (!rows.some(({ light }) => light)) return undefined;
    const timer = setTimeout(() => setRows((before) => faded(before, Date.now())), LIGHT);
    return () => clearTimeout(timer);
  }, [rows]);
  return { page, rows, error, again: () => void read() };
}

async function search(predicate: string, wanted: Wanted, cursor: string | null, goOn: () => boolean): Promise<FactPage> {
  const parameters = {
    limit: PAGE,
    where: Object.keys(wanted.where).length ? writeJson(wanted.where) : undefined,
    filter: wanted.filter,
    explicit: wanted.explicit || undefined,
  };
  const path = `/facts/${encodeURIComponent(predicate)}`;
  let page = await get<FactPage>(path, { ...parameters, cursor });
  // The server looks through a part of the facts at a time. Where it finds nothing, it is asked to look on, for a while.
  for (let part = 1; part < MOST_PARTS && page.next && !page.rows.length && goOn(); part += 1) {
    page = await get<FactPage>(path, { ...parameters, cursor: page.next });
  }
  return page;
}

function touches(commit: Commit, predicate: string): boolean {
  return predicate in commit.added || predicate in commit.removed || commit.rules.added.length > 0 || commit.rules.removed.length > 0;
}
