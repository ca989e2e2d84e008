/** A query that stays open: its answers are kept up to date in one of three ways.
 *
 * A stream tells what comes and goes, at a cost that follows the change. Browsers open only six connections to a server,
 * so that only the first few queries have one; the others are asked again after commits, and so are those that the server
 * cannot follow, such as one with alternatives. And a query with very many answers is asked once: following it would mean
 * asking for all of them.
 */

import { useEffect, useState } from "preact/hooks";
import { openStream, Problem, post } from "../api/client";
import { listen, Refused } from "../api/events";
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
  const first = await ask(text, FIRST, signal);
  const { update, variables, warnings } = first;
  tell(() => ({ update, total: first.rows.length, variables, warnings, rows: unlit(first.rows) }));
  if (first.more && (await ask(text, MOST_ANSWERS, signal)).more) tell(() => ({ state: "large" }));
  else if (!streamed || !(await followStream(text, tell, signal))) await followCommits(text, tell, signal);
}

/** Some answers. The server looks for no others. */
function ask(text: string, limit: number, signal: AbortSignal): Promise<Answers> {
  return post<Answers>("/query", { query: text, limit }, signal);
}

/** Follow a stream to its end; false if the server has none for this query. */
async function followStream(text: string, tell: Tell, signal: AbortSignal): Promise<boolean> {
  let current = NO_ANSWERS;
  let refused = false;
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
      onState: (state, error) => {
        refused = current === NO_ANSWERS && isUnprocessable(error);
        if (refused) return;
        tell((before) => ({
          state: before.state === "large" ? "large" : state === "open" ? "live" : state,
          error: state === "ended" ? error : undefined,
        }));
      },
    },
    signal,
  );
  return !refused;
}

function isUnprocessable(error: unknown): boolean {
  return error instanceof Refused && error.cause instanceof Problem && error.cause.status === 422;
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
  while (!signal.aborted) {
    if (!pending) await new Promise<void>((resolve) => (news = resolve));
    if (signal.aborted) return;
    pending = false;
    const { update, more, variables, rows } = await ask(text, MOST_ANSWERS, signal);
    if (more) return tell(() => ({ state: "large" }));
    tell((before) => {
      const seenAll = before.state === "live";
      const lit = seenAll ? readAgain(before.rows, rows, Date.now()) : unlit(rows);
      return { state: "live", update, total: rows.length, variables, rows: lit };
    });
    await new Promise((resolve) => setTimeout(resolve, AT_MOST_EVERY));
  }
}
