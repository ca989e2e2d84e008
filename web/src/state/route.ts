/** Which view is shown, and of what: kept in the address, so that a view can be linked to and gone back to. */

import { signal } from "@preact/signals";

export const VIEWS = ["facts", "rules", "queries", "graph", "proofs", "updates"] as const;
export type View = (typeof VIEWS)[number];

export interface Route {
  readonly view: View;
  /** What the view shows: a predicate, a fact, the number of an update or of a rule. */
  readonly subject: string;
  readonly options: Readonly<Record<string, string>>;
}

export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [name = "", ...rest] = path.split("/");
  const view = VIEWS.find((known) => known === name) ?? "facts";
  return { view, subject: decoded(rest.join("/")), options: Object.fromEntries(new URLSearchParams(query)) };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // Somebody typed a percent sign.
  }
}

export function linkTo(view: View, subject = "", options: Readonly<Record<string, string>> = {}): string {
  const query = new URLSearchParams(options).toString();
  return `#/${view}${subject ? `/${encodeURIComponent(subject)}` : ""}${query ? `?${query}` : ""}`;
}

export function goTo(view: View, subject = "", options: Readonly<Record<string, string>> = {}): void {
  location.hash = linkTo(view, subject, options);
}

export const route = signal<Route>(parseRoute(globalThis.location?.hash ?? ""));

export function followAddress(): void {
  addEventListener("hashchange", () => (route.value = parseRoute(location.hash)));
}
