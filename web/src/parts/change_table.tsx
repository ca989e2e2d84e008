/** What an update did, or would do: by predicate, with the first rows of each. */

import type { Change, Half } from "../api/types";
import { factText } from "../language/values";
import { prefixes } from "../state/live";
import { count, counted } from "./numbers";
import { Code } from "./code";

const SHOWN = 8;

export function ChangeTable({ change, nothing }: { change: Change; nothing: string }) {
  const names = [...new Set([...Object.keys(change.added), ...Object.keys(change.removed)])].sort();
  if (!names.length) return <p class="quiet pad">{nothing}</p>;
  return (
    <ul class="changes">
      {names.map((name) => (
        <li key={name}>
          <details open={names.length <= 4}>
            <summary>
              <span class="mono">{name}</span>
              {change.added[name] && <span class="came">+{count(change.added[name].count)}</span>}
              {change.removed[name] && <span class="went">−{count(change.removed[name].count)}</span>}
            </summary>
            <HalfList name={name} half={change.added[name]} kind="came" />
            <HalfList name={name} half={change.removed[name]} kind="went" />
          </details>
        </li>
      ))}
    </ul>
  );
}

function HalfList({ name, half, kind }: { name: string; half: Half | undefined; kind: "came" | "went" }) {
  if (!half) return null;
  const rows = half.rows.slice(0, SHOWN);
  return (
    <ul class={`half ${kind}`}>
      {rows.map((row, index) => (
        <li key={index}>
          <span class="sign">{kind === "came" ? "+" : "−"}</span>
          <Code text={factText(name, row, prefixes.value)} />
        </li>
      ))}
      {half.count > rows.length && <li class="quiet">and {counted(half.count - rows.length, "more fact")}</li>}
    </ul>
  );
}
