/** A proof as a tree that opens and closes: the fact, the rule that derives it, and below it what that rule used.
 *
 * Arrow keys work as in any tree. A proof can have thousands of steps, so that what is closed is not drawn, and a step
 * that is shared is drawn in full only once on each way down that somebody opens.
 */

import { useMemo, useRef, useState } from "preact/hooks";
import type { Proof } from "../api/types";
import { linkTo } from "../state/route";
import { Code } from "./code";

export interface ProofTreeProps {
  readonly proof: Proof;
  /** Facts, rules and conditions to mark, such as those that an update has changed. */
  readonly marked?: ReadonlySet<string>;
  readonly mark?: string;
}

interface Line {
  /** The way down from the top, as positions among the premises. */
  readonly path: string;
  readonly step: number;
  readonly depth: number;
  readonly place: number;
  readonly among: number;
}

const OPEN_AT_FIRST = 4; // levels
const MOST_OPEN = 40;
const MOST_PREMISES = 100;

export function ProofTree({ proof, marked, mark }: ProofTreeProps) {
  const [open, setOpen] = useState(() => openAtFirst(proof));
  const [focused, setFocused] = useState("0");
  const tree = useRef<HTMLUListElement>(null);
  const lines = useMemo(() => linesOf(proof, open), [proof, open]);

  const toggle = (path: string, wanted = !open.has(path)) => {
    const next = new Set(open);
    if (wanted) next.add(path);
    else next.delete(path);
    setOpen(next);
  };
  const focus = (line: Line | undefined) => {
    if (!line) return;
    setFocused(line.path);
    tree.current?.querySelector<HTMLElement>(`[data-path="${line.path}"]`)?.focus();
  };
  const onKeyDown = (event: KeyboardEvent, line: Line, index: number) => {
    if (event.target !== event.currentTarget && event.key === "Enter") return; // It is for the link in the line.
    const openable = isOpenable(proof, line.step);
    const parent = lines.find(({ path }) => path === line.path.slice(0, line.path.lastIndexOf(".")));
    if (event.key === "ArrowDown") focus(lines[index + 1]);
    else if (event.key === "ArrowUp") focus(lines[index - 1]);
    else if (event.key === "Home") focus(lines[0]);
    else if (event.key === "End") focus(lines.at(-1));
    else if (event.key === "ArrowRight" && openable && !open.has(line.path)) toggle(line.path, true);
    else if (event.key === "ArrowRight" && openable) focus(lines[index + 1]);
    else if (event.key === "ArrowLeft" && openable && open.has(line.path)) toggle(line.path, false);
    else if (event.key === "ArrowLeft") focus(parent);
    else if ((event.key === "Enter" || event.key === " ") && openable) toggle(line.path);
    else return;
    event.preventDefault();
  };

  return (
    <ul class="proof" role="tree" aria-label={`Proof of ${proof.fact}`} ref={tree}>
      {lines.map((line, index) => {
        const step = proof.steps[line.step];
        if (!step) return null;
        const openable = isOpenable(proof, line.step);
        const isOpen = open.has(line.path);
        return (
          <li
            key={line.path}
            role="treeitem"
            data-path={line.path}
            aria-level={line.depth + 1}
            aria-posinset={line.place}
            aria-setsize={line.among}
            aria-expanded={openable ? isOpen : undefined}
            tabIndex={line.path === focused ? 0 : -1}
            class={`proof-line ${marked?.has(step.fact) ? "marked" : ""}`}
            style={{ paddingLeft: `${line.depth * 22}px` }}
            onFocus={() => setFocused(line.path)}
            onKeyDown={(event) => onKeyDown(event, line, index)}
          >
            <div class="proof-head" onClick={() => openable && toggle(line.path)}>
              <span class={`twist ${openable ? (isOpen ? "open" : "closed") : "leaf"}`} aria-hidden="true" />
              <Code text={step.fact} />
              {step.rule === null && <span class="badge">explicit</span>}
              {marked?.has(step.fact) && <span class="badge hot">{mark}</span>}
              {line.depth > 0 && step.rule !== null && (
                <a class="why" href={linkTo("proofs", step.fact)} tabIndex={line.path === focused ? 0 : -1} onClick={(event) => event.stopPropagation()}>
                  from here
                </a>
              )}
            </div>
            {step.rule !== null && (
              <p class="proof-rule">
                by <Code text={step.rule} />
                {marked?.has(step.rule) && <span class="badge hot">{mark}</span>}
              </p>
            )}
            {isOpen &&
              step.conditions.map((condition) => (
                <p key={condition} class="proof-condition">
                  <span aria-hidden="true">✓ </span>
                  <Code text={condition} />
                </p>
              ))}
            {isOpen && step.premises.length > MOST_PREMISES && (
              <p class="quiet">{step.premises.length - MOST_PREMISES} more facts are not shown.</p>
            )}
          </li>
        );
      })}
    </ul>
  );
}

function isOpenable(proof: Proof, step: number): boolean {
  const { premises, conditions } = proof.steps[step] ?? { premises: [], conditions: [] };
  return premises.length + conditions.length > 0;
}

function openAtFirst(proof: Proof): Set<string> {
  const open = new Set<string>();
  let level: [path: string, step: number][] = [["0", 0]];
  for (let depth = 0; depth < OPEN_AT_FIRST && open.size < MOST_OPEN; depth += 1) {
    for (const [path] of level) open.add(path);
    level = level.flatMap(([path, step]) =>
      (proof.steps[step]?.premises ?? []).slice(0, MOST_PREMISES).map((premise, index): [string, number] => [`${path}.${index}`, premise]),
    );
  }
  return open;
}

/** The lines that can be seen, from top to bottom. */
export function linesOf(proof: Proof, open: ReadonlySet<string>): Line[] {
  const lines: Line[] = [];
  const waiting: Line[] = [{ path: "0", step: 0, depth: 0, place: 1, among: 1 }];
  while (waiting.length) {
    const line = waiting.pop() as Line;
    lines.push(line);
    if (!open.has(line.path)) continue;
    const premises = (proof.steps[line.step]?.premises ?? []).slice(0, MOST_PREMISES);
    const below = premises.map((step, index): Line => ({
      path: `${line.path}.${index}`,
      step,
      depth: line.depth + 1,
      place: index + 1,
      among: premises.length,
    }));
    waiting.push(...below.reverse());
  }
  return lines;
}
