/** A proof as a graph: each fact once, however often it is used, above those that it rests on. */

import { useMemo } from "preact/hooks";
import type { Proof } from "../api/types";
import { Dag, type DagBox } from "./dag";
import { counted } from "./numbers";

const MOST_STEPS = 250;

export interface ProofGraphProps {
  readonly proof: Proof;
  readonly marked?: ReadonlySet<string>;
  readonly selected: string;
  readonly onSelect: (step: string) => void;
}

export function ProofGraph({ proof, marked, selected, onSelect }: ProofGraphProps) {
  const boxes = useMemo(() => boxesOf(proof, marked), [proof, marked]);
  return (
    <>
      {proof.steps.length > MOST_STEPS && (
        <p class="note">
          The proof has {counted(proof.steps.length, "step")}. The graph shows the {MOST_STEPS} nearest to the fact.
        </p>
      )}
      <Dag boxes={boxes} direction="down" title={`Proof of ${proof.fact}`} selected={selected} onSelect={onSelect} />
    </>
  );
}

function boxesOf(proof: Proof, marked: ReadonlySet<string> | undefined): DagBox[] {
  const shown = nearest(proof, MOST_STEPS);
  const usedBy = new Map<number, string[]>();
  for (const number of shown) {
    for (const premise of proof.steps[number]?.premises ?? []) {
      usedBy.set(premise, [...(usedBy.get(premise) ?? []), String(number)]);
    }
  }
  return [...shown].map((number) => {
    const { fact, rule } = proof.steps[number] ?? { fact: "", rule: null };
    const hot = marked?.has(fact) ? "hot" : "";
    const text = fact.length > 46 ? `${fact.slice(0, 45)}…` : fact;
    return {
      id: String(number),
      parents: [...new Set(usedBy.get(number) ?? [])],
      width: Math.max(70, 34 + 7.9 * text.length),
      height: 34,
      kind: `${rule === null ? "given" : "derived"} ${hot}`,
      label: `${fact}, ${rule === null ? "explicit" : `by ${rule}`}`,
      content: <span class="box-title">{text}</span>,
    };
  });
}

/** The steps nearest to the fact, level by level. */
export function nearest(proof: Proof, most: number): Set<number> {
  const found = new Set([0]);
  for (const number of found) {
    for (const premise of proof.steps[number]?.premises ?? []) {
      if (found.size < most) found.add(premise);
    }
  }
  return found;
}
