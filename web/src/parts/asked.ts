/** What was asked of the server, for a view: the answer, the error, or that it is still on its way. */

import { useCallback, useEffect, useState } from "preact/hooks";

export interface Asked<T> {
  readonly answer: T | undefined;
  readonly error: unknown;
  readonly busy: boolean;
  /** Ask again. The old answer stays until the new one is there. */
  readonly again: () => void;
}

interface Told<T> {
  readonly key: string;
  readonly answer?: T;
  readonly error?: unknown;
}

/** Ask whenever one of the inputs changes; only the answer to the last question counts. */
export function useAsked<T>(ask: (signal: AbortSignal) => Promise<T>, inputs: readonly unknown[]): Asked<T> {
  const key = JSON.stringify(inputs);
  const [told, setTold] = useState<Told<T>>();
  const [turn, setTurn] = useState(0);
  const [busy, setBusy] = useState(true);
  useEffect(() => {
    const stop = new AbortController();
    const tell = (outcome: Told<T>) => {
      if (stop.signal.aborted) return;
      setTold(outcome);
      setBusy(false);
    };
    setBusy(true);
    ask(stop.signal).then(
      (answer) => tell({ key, answer }),
      (error: unknown) => tell({ key, error }),
    );
    return () => stop.abort();
  }, [key, turn]);
  const again = useCallback(() => setTurn((before) => before + 1), []);
  const current = told?.key === key ? told : undefined;
  return { answer: current?.answer, error: current?.error, busy, again };
}
