/** The queries that are open: their texts are kept in the browser, so that they are there again after a reload. */

import { effect, signal } from "@preact/signals";

export interface OpenQuery {
  readonly id: number;
  readonly text: string;
}

const KEPT = "tidelog-queries";

function kept(): OpenQuery[] {
  try {
    const texts: unknown = JSON.parse(localStorage.getItem(KEPT) ?? "[]");
    const known = Array.isArray(texts) ? texts.filter((text): text is string => typeof text === "string") : [];
    return known.map((text, id) => ({ id, text }));
  } catch {
    return []; // Somebody else wrote it.
  }
}

export const openQueries = signal<readonly OpenQuery[]>(kept());

effect(() => localStorage.setItem(KEPT, JSON.stringify(openQueries.value.map(({ text }) => text))));

/** Open a query, before all others. */
export function openQuery(text: string): void {
  const id = 1 + Math.max(-1, ...openQueries.value.map((query) => query.id));
  openQueries.value = [{ id, text }, ...openQueries.value];
}

export function closeQuery(id: number): void {
  openQueries.value = openQueries.value.filter((query) => query.id !== id);
}
