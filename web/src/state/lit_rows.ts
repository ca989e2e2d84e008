/** Rows of a table with what has just happened to them: those that came are lit up, and those that went stay for a moment,
 * so that an eye can follow. Pure functions; time is given to them in milliseconds.
 */

import { type Row, writeJson } from "../language/values";

export interface LitRow {
  readonly key: string;
  readonly row: Row;
  readonly light: "came" | "went" | undefined;
  readonly since: number;
}

/** How long a row stays lit. The style's animations take as long. */
export const LIGHT = 4000;

export function keyOf(row: Row): string {
  return writeJson(row);
}

export function unlit(rows: readonly Row[]): LitRow[] {
  return rows.map((row) => ({ key: keyOf(row), row, light: undefined, since: 0 }));
}

/** How many facts came and went, as far as commits tell. */
export interface Moves {
  readonly came: number;
  readonly went: number;
}

const ANY: Moves = { came: Infinity, went: Infinity };

/** The same place of a table, read again. When a row goes, another moves into sight at the end, and did not come; so no
 * more rows are lit up than commits have moved, the first ones first.
 */
export function readAgain(before: readonly LitRow[], rows: readonly Row[], now: number, moves: Moves = ANY): LitRow[] {
  let { came, went } = moves;
  const known = new Map(before.filter(({ light }) => light !== "went").map((row) => [row.key, row]));
  const result = rows.map((row): LitRow => {
    const key = keyOf(row);
    const old = known.get(key);
    if (old) return stillLit(old, now);
    return { key, row, light: came-- > 0 ? "came" : undefined, since: now };
  });
  const there = new Set(result.map(({ key }) => key));
  before.forEach((row, index) => {
    if (there.has(row.key)) return;
    if (row.light === "went" ? now - row.since < LIGHT : went-- > 0) {
      const ghost: LitRow = row.light === "went" ? row : { ...row, light: "went", since: now };
      result.splice(Math.min(index, result.length), 0, ghost);
    }
  });
  return result;
}

/** A set of answers after a change: what came stands first. */
export function withChange(before: readonly LitRow[], added: readonly Row[], removed: readonly Row[], now: number): LitRow[] {
  const gone = new Set(removed.map(keyOf));
  const come = new Set(added.map(keyOf));
  const rest = faded(before, now)
    .filter(({ key }) => !come.has(key))
    .map((row): LitRow => (gone.has(row.key) && row.light !== "went" ? { ...row, light: "went", since: now } : row));
  return [...added.map((row): LitRow => ({ key: keyOf(row), row, light: "came", since: now })), ...rest];
}

/** The rows without lights that are over. */
export function faded(rows: readonly LitRow[], now: number): LitRow[] {
  return rows
    .filter(({ light, since }) => light !== "went" || now - since < LIGHT)
    .map((row) => stillLit(row, now));
}

function stillLit(row: LitRow, now: number): LitRow {
  return row.light && now - row.since >= LIGHT ? { ...row, light: undefined } : row;
}

export function standing(rows: readonly LitRow[]): number {
  return rows.reduce((sum, { light }) => sum + (light === "went" ? 0 : 1), 0);
}
