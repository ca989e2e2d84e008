/** Requests to the server that the page came from. What it refuses is raised as a `Problem`. */

import { parseJson, writeJson } from "../language/values";
import { Refused } from "./events";
import type { Mistake, ProblemDocument } from "./types";

/** A refusal, as the server words it (RFC 9457). */
export class Problem extends Error {
  readonly status: number;
  readonly mistakes: readonly Mistake[];

  constructor(document: ProblemDocument) {
    super(document.detail || document.title);
    this.status = document.status;
    this.mistakes = document.mistakes ?? [];
  }
}

type Parameters = Readonly<Record<string, string | number | boolean | null | undefined>>;

let onUnknown: () => void = () => undefined;

/** Have somebody told when the server wants a token that it has not been given. */
export function whenUnknown(tell: () => void): void {
  onUnknown = tell;
}

function address(path: string, parameters: Parameters = {}): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return given.length ? `${path}?${query}` : path;
}

async function problemOf(response: Response): Promise<Problem> {
  const text = await response.text();
  if (response.headers.get("content-type")?.startsWith("application/problem+json")) {
    return new Problem(JSON.parse(text) as ProblemDocument);
  }
  return new Problem({ type: "", title: `The server answered ${response.status}.`, status: response.status });
}

async function request(path: string, init: RequestInit): Promise<Response> {
  const response = await fetch(path, { credentials: "same-origin", ...init });
  if (response.ok) return response;
  if (response.status === 401) onUnknown();
  throw await problemOf(response);
}

export async function get<T>(path: string, parameters?: Parameters, signal?: AbortSignal): Promise<T> {
  const response = await request(address(path, parameters), { headers: { accept: "application/json" }, signal });
  return parseJson<T>(await response.text());
}

export async function post<T>(path: string, body: object, signal?: AbortSignal): Promise<T> {
  return sent<T>(path, body, {}, signal);
}

async function sent<T>(path: string, body: object, headers: Record<string, string>, signal?: AbortSignal): Promise<T> {
  const response = await request(path, {
    method: "POST",
    headers: { accept: "application/json", "content-type": "application/json", ...headers },
    body: writeJson(body),
    signal,
  });
  return parseJson<T>((await response.text()) || "null");
}

/** Change something. If the answer is lost, it is asked for again, under the same key, so that it is applied once. */
export async function change<T>(path: string, body: object): Promise<T> {
  const random = crypto.getRandomValues(new Uint32Array(4));
  const key = { "idempotency-key": `page-${[...random].map((part) => part.toString(36)).join("-")}` };
  try {
    return await sent<T>(path, body, key);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error; // `fetch` raises a TypeError where the connection fails.
    return await sent<T>(path, body, key);
  }
}

export async function setToken(token: string): Promise<void> {
  await request("/session", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ token }),
  });
}

export async function dropToken(): Promise<void> {
  await request("/session", { method: "DELETE" });
}

/** Open a stream of events, after the one with the last id if there is one. */
export async function openStream(
  path: string,
  parameters: Parameters,
  lastId: string | undefined,
  signal: AbortSignal,
): Promise<Response> {
  const headers: Record<string, string> = { accept: "text/event-stream" };
  if (lastId !== undefined) headers["last-event-id"] = lastId;
  try {
    return await request(address(path, parameters), { headers, signal, cache: "no-store" });
  } catch (error) {
    // Whoever asked wrongly is told so; a server that is busy or gone is asked again.
    if (error instanceof Problem && error.status >= 400 && error.status < 500 && error.status !== 429) {
      throw new Refused(error.message, { cause: error });
    }
    throw error;
  }
}

/** What to show of an error. */
export function messageOf(error: unknown): string {
  if (error instanceof TypeError) return "The server cannot be reached.";
  const message = error instanceof Error ? error.message : String(error);
  // What was asked is one text, here on the page: its name and the place in it say nothing new.
  return message.replace(/^<\w+>:\d+:\d+: /, "");
}
