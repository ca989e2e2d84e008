/** A query that stays open: its answers are kept up to date in one of three ways.
 *
 * A stream tells what comes and goes, at a cost that follows the change. Browsers open only six connections to a server,
 * so that only the first few queries have one; the others are asked again after commits. And a query with very many
 * answers is asked once: following it would mean asking for all of them.
 */

import { useEffect, useState } from "preact/hooks";
import { openStream, post } from "../api/client";
import { listen } from "../api/events";
import type { Answers } from "../api/types";
import { onCommits } from "./live";
import { afterEvent, NO_ANSWERS } from "./live_answers";
import { faded, LIGHT, type LitRow, readAgain, unlit } from "./lit_rows";

export const MOST_ANSWERS = 5000;
const FIRST = 100;
const AT_MOST_EVERY = 1000; // milliseconds

export interface Followed {
  readonly state: "asking" | "live" | "waiting" | "large" | "ended";
  readonly update: number;
  readonly total: number;
  readonly variables: readonly string[];
  readonly rows: readonly LitRow[];
  readonly warnings: readonly string[];
  readonly error: unknown;
}

const NOTHING: Followed = { state: "asking", update: 0, total: 0, variables: [], rows: [], warnings: [], error: undefined };

type Tell = (change: (before: Followed) => Partial<Followed>) => void;

/** Follow a query for as long as it is shown. The second result asks anew. */
export function useFollowed(text: string, streamed: boolean): [Followed, () => void] {
  const [followed, setFollowed] = useState(NOTHING);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    const tell: Tell = (change) => {
      if (!stop.signal.aborted) setFollowed((before) => ({ ...before, ...change(before) }));
    };
    setFollowed((before) => ({ ...before, state: "asking", error: undefined }));
    follow(text, streamed, tell, stop.signal).catch((error: unknown) => tell(() => ({ state: "ended", error })));
    return () => stop.abort();
  }, [text, streamed, turn]);
  useEffect(() => {
    if (!followed.rows.some(({ light }) => light)) return undefined;
    const dim = () => setFollowed((before) => ({ ...before, rows: faded(before.rows, Date.now()) }));
    const timer = setTimeout(dim, LIGHT);
    return () => clearTimeout(timer);
  }, [followed.rows]);
  return [followed, () => setTurn(turn + 1)];
}

async function follow(text: string, streamed: boolean, tell: Tell, signal: AbortSignal): Promise<void> {
  const first = await post<Answers>("/query", { query: text, limit: FIRST }, signal);
  const { update, total, variables, warnings } = first;
  tell(() => ({ update, total, variables, warnings, rows: unlit(first.rows) }));
  if (total > MOST_ANSWERS) tell(() => ({ state: "large" }));
  else if (streamed) await followStream(text, tell, signal);
  else await followCommits(text, tell, signal);
}

async function followStream(text: string, tell: Tell, signal: AbortSignal): Promise<void> {
  let current = NO_ANSWERS;
  await listen(
    {
      connect: (lastId, turn) => openStream("/subscribe", { query: text }, lastId, turn),
      onEvent: (event) => {
        current = afterEvent(current, event, Date.now());
        if (current.rows.length + current.arriving.length > 2 * MOST_ANSWERS) {
          tell(() => ({ state: "large" }));
          return "end";
        }
        const { update, variables, rows, arriving } = current;
        const total = rows.filter(({ light }) => light !== "went").length;
        if (!arriving.length && event.event !== "reset") tell(() => ({ update, total, variables, rows }));
        return undefined;
      },
      onState: (state, error) =>
        tell((before) => ({
          state: before.state === "large" ? "large" : state === "open" ? "live" : state,
          error: state === "ended" ? error : undefined,
        })),
    },
    signal,
  );
}

/** Ask again after commits, but not more often than now and then. */
async function followCommits(text: string, tell: Tell, signal: AbortSignal): Promise<void> {
  let news: () => void = () => undefined;
  let pending = true;
  const forget = onCommits(() => {
    pending = true;
    news();
  });
  signal.addEventListener("abort", () => {
    forget();
    news();
  });
  tell(() => ({ state: "live" }));
  while (!signal.aborted) {
    if (!pending) await new Promise<void>((resolve) => (news = resolve));
    if (signal.aborted) return;
    pending = false;
    const { update, total, variables, rows } = await post<Answers>("/query", { query: text, limit: MOST_ANSWERS }, signal);
    if (total > MOST_ANSWERS) return tell(() => ({ state: "large" }));
    tell((before) => {
      const seenAll = before.total <= before.rows.length;
      return { update, total, variables, rows: seenAll ? readAgain(before.rows, rows, Date.now()) : unlit(rows) };
    });
    await new Promise((resolve) => setTimeout(resolve, AT_MOST_EVERY));
  }
}
