/** Server-Sent Events by `fetch`, which tells why a stream was refused, where the browser's `EventSource` does not.
 *
 * When a connection ends, the next one asks for what came after the last event it has heard of (`Last-Event-ID`). It
 * waits a little longer after each failure, but no longer than until the network comes back. A page that nobody sees
 * hangs up, and goes on from there when it is seen again: browsers open only six connections to a server, for all tabs.
 */

export interface ServerEvent {
  readonly id: string;
  readonly event: string;
  readonly data: string;
}

/** Takes text in whatever pieces it arrives, and gives the events that are complete. */
export class EventParser {
  private rest = "";
  private data: string[] = [];
  private event = "";
  private id: string;
  /** The pause before the next connection, in milliseconds, if the server has named one. */
  retry: number | undefined;

  constructor(lastId = "") {
    this.id = lastId;
  }

  *take(text: string): Generator<ServerEvent> {
    this.rest += text;
    // A carriage return at the end may be the first half of a line break.
    const complete = this.rest.endsWith("\r") ? this.rest.slice(0, -1) : this.rest;
    const lines = complete.split(/\r\n|\n|\r/);
    this.rest = (lines.pop() ?? "") + this.rest.slice(complete.length);
    for (const line of lines) {
      const event = this.takeLine(line);
      if (event) yield event;
    }
  }

  private takeLine(line: string): ServerEvent | undefined {
    if (line === "") return this.finish();
    const colon = line.indexOf(":");
    if (colon === 0) return undefined;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.data.push(value);
    else if (field === "event") this.event = value;
    else if (field === "id" && !value.includes("\0")) this.id = value;
    else if (field === "retry" && /^\d+$/.test(value)) this.retry = Number(value);
    return undefined;
  }

  private finish(): ServerEvent | undefined {
    const [data, event] = [this.data, this.event];
    this.data = [];
    this.event = "";
    return data.length ? { id: this.id, event: event || "message", data: data.join("\n") } : undefined;
  }
}

/** An error after which another attempt would end the same way: a bad query, no right to ask. */
export class Refused extends Error {}

export interface Listener {
  /** Open a connection that goes on after an event, or begins anew without one. Raises `Refused` to give up. */
  connect(lastId: string | undefined, signal: AbortSignal): Promise<Response>;
  /** Handle an event; "end" ends it all. */
  onEvent(event: ServerEvent): "end" | void;
  onState?(state: "open" | "waiting" | "ended", error?: unknown): void;
}

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 5000;

/** Listen until the signal says otherwise. */
export async function listen(listener: Listener, signal: AbortSignal): Promise<void> {
  let lastId: string | undefined;
  let failures = 0;
  let pause = FIRST_PAUSE;
  while (!signal.aborted) {
    await seen(signal);
    const [turn, stopWatching] = untilHidden(signal);
    try {
      const response = await listener.connect(lastId, turn);
      listener.onState?.("open");
      const parser = new EventParser(lastId);
      for await (const text of texts(response, turn)) {
        failures = 0;
        for (const event of parser.take(text)) {
          lastId = event.id || lastId;
          if (listener.onEvent(event) === "end") return listener.onState?.("ended");
        }
      }
      pause = parser.retry ?? FIRST_PAUSE;
      if (!turn.aborted) listener.onState?.("waiting");
    } catch (error) {
      if (error instanceof Refused) return listener.onState?.("ended", error);
      if (!turn.aborted) listener.onState?.("waiting", error);
    } finally {
      stopWatching();
    }
    if (turn.aborted) continue;
    await waited(Math.min(LONGEST_PAUSE, pause * 2 ** failures), signal);
    failures += 1;
  }
}

let left = false;
globalThis.addEventListener?.("pagehide", () => (left = true));
globalThis.addEventListener?.("pageshow", () => (left = false));

/** Whether nobody sees the page: its tab is behind another one, or it is kept only to go back to. */
function isHidden(): boolean {
  return left || globalThis.document?.visibilityState === "hidden";
}

/** Wait until somebody sees the page. */
function seen(signal: AbortSignal): Promise<void> {
  if (!isHidden()) return Promise.resolve();
  return new Promise((resolve) => {
    const look = () => {
      if (isHidden() && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      globalThis.removeEventListener("pageshow", look);
      signal.removeEventListener("abort", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    globalThis.addEventListener("pageshow", look);
    signal.addEventListener("abort", look);
  });
}

/** A signal that is also given when the page is hidden or left, and how to stop watching for that. */
function untilHidden(signal: AbortSignal): [AbortSignal, () => void] {
  const turn = new AbortController();
  const hangUp = () => turn.abort();
  const look = () => isHidden() && turn.abort();
  globalThis.document?.addEventListener("visibilitychange", look);
  globalThis.addEventListener?.("pagehide", hangUp);
  signal.addEventListener("abort", hangUp);
  const stop = () => {
    globalThis.document?.removeEventListener("visibilitychange", look);
    globalThis.removeEventListener?.("pagehide", hangUp);
    signal.removeEventListener("abort", hangUp);
  };
  return [turn.signal, stop];
}

async function* texts(response: Response, signal: AbortSignal): AsyncGenerator<string> {
  if (!response.body) return;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  try {
    while (!signal.aborted) {
      const { done, value } = await reader.read();
      if (done) return;
      yield decoder.decode(value, { stream: true });
    }
  } finally {
    // The connection may already be gone, and nobody waits for it any more.
    void reader.cancel().catch(() => undefined);
  }
}

function waited(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      globalThis.removeEventListener?.("online", done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    globalThis.addEventListener?.("online", done);
    signal.addEventListener("abort", done);
  });
}
