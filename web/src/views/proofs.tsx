/** Why a fact holds, why it does not, and why it came or went. */

import { useEffect, useState } from "preact/hooks";
import { post, Problem } from "../api/client";
import type { ChangeProof, Explanation, Proof, WhyNot } from "../api/types";
import { useAsked } from "../parts/asked";
import { Code } from "../parts/code";
import { Empty, ErrorNote } from "../parts/notices";
import { counted } from "../parts/numbers";
import { ProofGraph } from "../parts/proof_graph";
import { ProofTree } from "../parts/proof_tree";
import { useThrottled } from "../parts/timing";
import { onCommits } from "../state/live";
import { goTo, linkTo } from "../state/route";
import { WhyNotPanel } from "./why_not";

const MOST_PROOFS = 5;

interface Answer {
  readonly explanation: Explanation;
  readonly whyNot: WhyNot | undefined;
  readonly changed: ChangeProof | undefined;
}

export function ProofsView({ subject }: { subject: string }) {
  return (
    <div class="stack">
      <FactForm key={subject} fact={subject} />
      {subject ? <Explained key={subject} fact={subject} /> : <Start />}
    </div>
  );
}

function Start() {
  return (
    <section class="panel">
      <Empty title="Which fact?">
        <p>
          Type a fact, or choose <em>why?</em> beside one in <a href={linkTo("facts")}>Facts</a>. You will see the rules and facts
          that it rests on. If it does not hold, you will see what is missing; if it vanished, why.
        </p>
      </Empty>
    </section>
  );
}

function FactForm({ fact }: { fact: string }) {
  const [text, setText] = useState(fact);
  return (
    <form
      class="panel ask"
      aria-label="Ask about a fact"
      onSubmit={(event) => {
        event.preventDefault();
        if (text.trim()) goTo("proofs", text.trim().replace(/\.$/, ""));
      }}
    >
      <div class="row">
        <input
          type="text"
          class="mono grow"
          placeholder="path(a, c)"
          aria-label="Fact"
          autocomplete="off"
          spellcheck={false}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <button type="submit" class="primary" disabled={!text.trim()}>
          Explain
        </button>
      </div>
    </form>
  );
}

async function ask(fact: string, signal: AbortSignal): Promise<Answer> {
  const explanation = await post<Explanation>("/explain", { fact, limit: MOST_PROOFS }, signal);
  const [whyNot, changed] = await Promise.all([
    explanation.holds ? undefined : post<WhyNot>("/why-not", { fact }, signal),
    post<ChangeProof>("/explain-change", { fact }, signal).catch(unlessNotFound),
  ]);
  return { explanation, whyNot, changed };
}

/** No update within reach has changed the fact: there is nothing to tell. */
function unlessNotFound(error: unknown): undefined {
  if (error instanceof Problem && error.status === 404) return undefined;
  throw error;
}

function Explained({ fact }: { fact: string }) {
  const asked = useAsked((signal) => ask(fact, signal), [fact]);
  const againSoon = useThrottled(asked.again, 500);
  useEffect(() => onCommits(againSoon), []);
  if (asked.error) {
    return (
      <section class="panel">
        <ErrorNote error={asked.error} again={asked.again} />
      </section>
    );
  }
  if (!asked.answer) return <p class="quiet pad">Looking for a proof …</p>;
  const { explanation, whyNot, changed } = asked.answer;
  return (
    <>
      {explanation.holds ? <Proofs explanation={explanation} /> : whyNot && <WhyNotPanel report={whyNot} />}
      {changed && <ChangedPanel changed={changed} />}
    </>
  );
}

function Proofs({ explanation }: { explanation: Explanation }) {
  const [number, setNumber] = useState(0);
  const { proofs } = explanation;
  const proof = proofs[Math.min(number, proofs.length - 1)];
  if (!proof) return null;
  return (
    <section class="panel proof-panel" aria-label="Proof">
      <div class="panel-head">
        <h2>
          <Code text={explanation.fact} /> <span class="verdict holds">holds</span>
        </h2>
        <span class="quiet">
          {proof.height === 0 ? "an explicit fact" : `${counted(proof.steps.length, "fact")}, height ${proof.height}`}
        </span>
        <span class="grow" />
        {proofs.length > 1 && (
          <span class="pages">
            <button type="button" class="icon" aria-label="Previous proof" disabled={number === 0} onClick={() => setNumber(number - 1)}>
              ←
            </button>
            <span class="quiet">
              proof {number + 1} of {proofs.length}
              {proofs.length === MOST_PROOFS ? "+" : ""}
            </span>
            <button
              type="button"
              class="icon"
              aria-label="Next proof"
              disabled={number >= proofs.length - 1}
              onClick={() => setNumber(number + 1)}
            >
              →
            </button>
          </span>
        )}
      </div>
      <TreeOrGraph key={number} proof={proof} />
    </section>
  );
}

function TreeOrGraph({ proof, marked, mark }: { proof: Proof; marked?: ReadonlySet<string>; mark?: string }) {
  const [form, setForm] = useState<"tree" | "graph">("tree");
  const [selected, setSelected] = useState("0");
  const step = proof.steps[Number(selected)];
  return (
    <>
      <div class="switch" role="group" aria-label="Form of the proof">
        {(["tree", "graph"] as const).map((name) => (
          <button key={name} type="button" aria-pressed={form === name} onClick={() => setForm(name)}>
            {name === "tree" ? "Tree" : "Graph"}
          </button>
        ))}
      </div>
      {form === "tree" ? (
        <ProofTree proof={proof} {...(marked && { marked })} {...(mark && { mark })} />
      ) : (
        <>
          <ProofGraph proof={proof} {...(marked && { marked })} selected={selected} onSelect={setSelected} />
          {step && (
            <div class="step" role="status">
              <p>
                <Code text={step.fact} /> {step.rule === null ? <span class="badge">explicit</span> : null}
              </p>
              {step.rule !== null && (
                <p class="proof-rule">
                  by <Code text={step.rule} />
                </p>
              )}
              {step.conditions.map((condition) => (
                <p key={condition} class="proof-condition">
                  <span aria-hidden="true">✓ </span>
                  <Code text={condition} />
                </p>
              ))}
            </div>
          )}
        </>
      )}
    </>
  );
}

function ChangedPanel({ changed }: { changed: ChangeProof }) {
  const marked = new Set([...changed.facts, ...changed.rules, ...changed.negations]);
  const causes = [...changed.leaves, ...changed.negations, ...changed.rules];
  return (
    <section class="panel proof-panel" aria-label={changed.came ? "Why it came" : "Why it vanished"}>
      <div class="panel-head">
        <h2>{changed.came ? "Why it came" : "Why it vanished"}</h2>
        <span class="quiet">
          with <a href={linkTo("updates", String(changed.update))}>update {changed.update}</a>
        </span>
      </div>
      {causes.length > 0 && (
        <ul class={`half ${changed.came ? "came" : "went"}`}>
          {causes.map((cause) => (
            <li key={cause}>
              <span class="sign">{changed.came ? "+" : "−"}</span>
              <Code text={cause} />
            </li>
          ))}
        </ul>
      )}
      <p class="pad quiet">{changed.came ? "How it holds since then:" : "How it held before:"}</p>
      <TreeOrGraph proof={changed.proof} marked={marked} mark={changed.came ? "new" : "gone"} />
    </section>
  );
}
