/** Calls that come too fast, thinned out. */

import { useEffect, useMemo, useRef } from "preact/hooks";

/** A function that calls another at most once in so many milliseconds, the last time with the last argument. */
export function useThrottled<A extends unknown[]>(call: (...given: A) => void, milliseconds: number): (...given: A) => void {
  const latest = useRef(call);
  latest.current = call;
  const state = useRef<{ timer?: ReturnType<typeof setTimeout> | undefined; given?: A }>({});
  useEffect(() => () => clearTimeout(state.current.timer), []);
  return useMemo(
    () =>
      (...given: A) => {
        state.current.given = given;
        state.current.timer ??= setTimeout(() => {
          state.current.timer = undefined;
          latest.current(...(state.current.given as A));
        }, milliseconds);
      },
    [milliseconds],
  );
}

/** A function that calls another when nothing has been asked of it for so many milliseconds. */
export function useSettled<A extends unknown[]>(call: (...given: A) => void, milliseconds: number): (...given: A) => void {
  const latest = useRef(call);
  latest.current = call;
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  return useMemo(
    () =>
      (...given: A) => {
        clearTimeout(timer.current);
        timer.current = setTimeout(() => latest.current(...given), milliseconds);
      },
    [milliseconds],
  );
}
