/** Rows as a table. Arrow keys move from cell to cell; Enter does what a click does. */

import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { prefixes } from "../state/live";
import type { LitRow } from "../state/lit_rows";
import { type Value, valueKind, valueText } from "../language/values";

export interface RowsTableProps {
  readonly title: string;
  readonly columns: readonly string[];
  readonly rows: readonly LitRow[];
  /** What a click on a value does, said for the tooltip. */
  readonly onValue?: ((column: number, value: Value) => void) | undefined;
  readonly onValueTitle?: string;
  /** Something to do with a row, in a last column. */
  readonly action?: (row: LitRow) => ComponentChildren;
}

export function RowsTable({ title, columns, rows, onValue, onValueTitle, action }: RowsTableProps) {
  const table = useRef<HTMLTableElement>(null);
  const [place, setPlace] = useState({ row: 0, column: 0 });
  const width = columns.length + (action ? 1 : 0);

  const move = (event: KeyboardEvent) => {
    const steps: Record<string, [number, number]> = {
      ArrowDown: [1, 0],
      ArrowUp: [-1, 0],
      ArrowRight: [0, 1],
      ArrowLeft: [0, -1],
      PageDown: [20, 0],
      PageUp: [-20, 0],
      Home: [0, -width],
      End: [0, width],
    };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    const row = Math.max(0, Math.min(rows.length - 1, place.row + step[0]));
    const column = Math.max(0, Math.min(width - 1, place.column + step[1]));
    setPlace({ row, column });
    const cell = table.current?.tBodies[0]?.rows[row]?.cells[column];
    cell?.querySelector<HTMLElement>("button, a")?.focus();
  };

  const focusable = (row: number, column: number) => (row === Math.min(place.row, rows.length - 1) && column === place.column ? 0 : -1);
  return (
    <div class="table-frame">
      <table class="rows" ref={table} role="grid" aria-label={title} aria-rowcount={rows.length} onKeyDown={move}>
        <thead>
          <tr>
            {columns.map((column, index) => (
              <th key={index} scope="col">
                {column}
              </th>
            ))}
            {action && (
              <th scope="col" class="action">
                <span class="hidden">Actions</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, rowIndex) => (
            <tr key={row.key + (row.light === "went" ? "-" : "")} class={row.light ?? ""}>
              {row.row.map((value, column) => (
                <td key={column} class={`value ${valueKind(value)}`} onFocusIn={() => setPlace({ row: rowIndex, column })}>
                  <button
                    type="button"
                    class="cell"
                    tabIndex={focusable(rowIndex, column)}
                    title={onValue && onValueTitle}
                    onClick={() => onValue?.(column, value)}
                  >
                    {valueText(value, prefixes.value)}
                  </button>
                </td>
              ))}
              {!row.row.length && (
                <td class="value">
                  <em>holds</em>
                </td>
              )}
              {action && (
                <td class="action" onFocusIn={() => setPlace({ row: rowIndex, column: columns.length })}>
                  {row.light === "went" ? <span class="went-word">went</span> : null}
                  {action(row)}
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
