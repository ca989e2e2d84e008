/** Keeps the picture of the knowledge base up to date: listens to the stream of commits for as long as the page is open.
 *
 * Commits are taken in together, a few times a second, however fast they come.
 */

import { effect, signal } from "@preact/signals";
import { get, openStream, Problem } from "../api/client";
import { listen, type ServerEvent } from "../api/events";
import type { Commit, Predicates, Rules } from "../api/types";
import type { Prefixes } from "../language/values";
import { EMPTY, type Picture, withCommits, withPredicates } from "./picture";
import { maySee } from "./session";

export const picture = signal<Picture>(EMPTY);
export const prefixes = signal<Prefixes>({});
export const connection = signal<"open" | "waiting" | "ended">("waiting");

const TOGETHER = 100; // milliseconds
const AFTER_FAILURE = 2000;

type Hearer = (commits: readonly Commit[]) => void;
const hearers = new Set<Hearer>();

/** Be told of commits that come from now on; of none in particular, when some may have been missed. Returns how to stop
 * that.
 */
export function onCommits(hearer: Hearer): () => void {
  hearers.add(hearer);
  return () => hearers.delete(hearer);
}

let heard = 0; // the last commit that hearers know of, or began after
let waiting: Commit[] = [];
let timer: ReturnType<typeof setTimeout> | undefined;

function take(event: ServerEvent): void {
  if (event.event !== "commit") return;
  waiting.push(JSON.parse(event.data) as Commit);
  timer ??= setTimeout(takeIn, TOGETHER);
}

function takeIn(): void {
  timer = undefined;
  const fresh = waiting.filter(({ update }) => update > heard);
  picture.value = withCommits(picture.value, waiting);
  heard = Math.max(heard, ...waiting.map(({ update }) => update));
  waiting = [];
  if (fresh.length) for (const hearer of hearers) hearer(fresh);
  if (picture.value.stale) void reload();
}

let reloading = false;

/** List the predicates again, unless that is being done. */
async function reload(): Promise<void> {
  if (reloading) return;
  reloading = true;
  try {
    const [listed, known] = await Promise.all([get<Predicates>("/predicates"), knownPrefixes()]);
    prefixes.value = known;
    picture.value = withPredicates(picture.value, listed);
    // Commits have come meanwhile that this list does not know of.
    if (picture.value.stale) setTimeout(() => void reload(), TOGETHER);
  } catch {
    // A server that cannot be reached is asked again when it can be, and one that is busy, a little later.
    if (connection.value === "open") setTimeout(() => void reload(), AFTER_FAILURE);
  } finally {
    reloading = false;
  }
}

/** The prefixes that rules declare. Whoever may read single predicates alone does not see the rules. */
async function knownPrefixes(): Promise<Prefixes> {
  try {
    return (await get<Rules>("/rules")).prefixes;
  } catch (error) {
    if (error instanceof Problem && error.status === 403) return {};
    throw error;
  }
}

async function follow(signal: AbortSignal): Promise<void> {
  await reload();
  heard = picture.value.update;
  let opened = false;
  const onOpen = async () => {
    if (opened) {
      await reload();
      for (const hearer of hearers) hearer([]);
    } else if (picture.value.stale) {
      await reload();
    }
    opened = true;
  };
  await listen(
    {
      connect: (lastId, aborted) => openStream("/updates", {}, lastId, aborted),
      onEvent: take,
      onState: (state) => {
        connection.value = state;
        if (state === "open") void onOpen();
      },
    },
    signal,
  );
}

/** Follow the knowledge base whenever somebody looks who may see it. */
export function keepUp(): void {
  let stop: AbortController | undefined;
  effect(() => {
    stop?.abort();
    if (!maySee.value) return;
    stop = new AbortController();
    picture.value = EMPTY;
    void follow(stop.signal);
  });
}
