/** The page's picture of the knowledge base: predicates with their counts, and the last commits. Pure functions of what
 * the server said, so that they can be tested without one.
 */

import type { Commit, Predicate, Predicates } from "../api/types";

export const MOST_COMMITS = 300;

export interface Moved {
  readonly update: number;
  readonly added: number;
  readonly removed: number;
}

export interface Picture {
  /** The update up to which the counts are right. */
  readonly update: number;
  readonly predicates: ReadonlyMap<string, Predicate>;
  /** What the last commits did to each predicate, to be lit up. */
  readonly moved: ReadonlyMap<string, Moved>;
  /** Oldest first. */
  readonly commits: readonly Commit[];
  readonly facts: number | undefined;
  /** Whether the counts miss something that only the server can tell, such as a new predicate. */
  readonly stale: boolean;
}

export const EMPTY: Picture = {
  update: 0,
  predicates: new Map(),
  moved: new Map(),
  commits: [],
  facts: undefined,
  stale: true,
};

/** The picture with the counts that the server has just listed. */
export function withPredicates(picture: Picture, listed: Predicates): Picture {
  if (listed.update < picture.update) return { ...picture, stale: true };
  const predicates = new Map(listed.predicates.map((predicate) => [predicate.name, predicate]));
  const facts = listed.predicates.reduce((sum, predicate) => sum + predicate.facts, 0);
  return { ...picture, update: listed.update, predicates, facts, stale: false };
}

/** The picture after some commits. Those that the counts include already are kept for the chart, and move nothing. */
export function withCommits(picture: Picture, arrived: readonly Commit[]): Picture {
  const known = picture.commits.at(-1)?.update ?? -1;
  const fresh = arrived.filter(({ update }) => update > known);
  if (!fresh.length) return picture;
  const predicates = new Map(picture.predicates);
  const moved = new Map(picture.moved);
  let { stale, update, facts } = picture;
  for (const commit of fresh) {
    if (commit.update <= update) continue;
    const unknown = moveCounts(commit, predicates, moved);
    stale ||= unknown || changesRules(commit);
    update = commit.update;
    facts = commit.facts;
  }
  const commits = [...picture.commits, ...fresh].slice(-MOST_COMMITS);
  return { update, predicates, moved, commits, facts, stale };
}

export function changesRules({ rules }: Commit): boolean {
  return rules.added.length + rules.removed.length > 0;
}

/** Move the counts. Says whether the commit touched a predicate that is not listed. */
function moveCounts(commit: Commit, predicates: Map<string, Predicate>, moved: Map<string, Moved>): boolean {
  let unknown = false;
  for (const name of new Set([...Object.keys(commit.added), ...Object.keys(commit.removed)])) {
    const [added, removed] = [commit.added[name] ?? 0, commit.removed[name] ?? 0];
    const predicate = predicates.get(name);
    // Commits tell how many facts came, and not how many of them are explicit.
    if (predicate) predicates.set(name, { ...predicate, facts: predicate.facts + added - removed, explicit: null });
    else unknown = true;
    moved.set(name, { update: commit.update, added, removed });
  }
  return unknown;
}

export function workOf(commit: Commit): number {
  return Object.values(commit.work).reduce((sum, count) => sum + count, 0);
}

export function sumOf(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}
