/** Why a fact does not hold, down to the facts that are missing, and what would follow from one of them. */

import { useState } from "preact/hooks";
import { post } from "../api/client";
import type { Change, WhatIf, WhyNot } from "../api/types";
import { isFact, reportLines } from "../language/why_not";
import { ChangeTable } from "../parts/change_table";
import { Code } from "../parts/code";
import { ErrorNote } from "../parts/notices";
import { linkTo } from "../state/route";

export function WhyNotPanel({ report }: { report: WhyNot }) {
  return (
    <section class="panel" aria-label="Why not">
      <div class="panel-head">
        <h2>
          <Code text={report.fact} /> <span class="verdict not">does not hold</span>
        </h2>
      </div>
      {report.missing.length > 0 && <Missing facts={report.missing} />}
      {report.in_the_way.length > 0 && (
        <>
          <p class="pad quiet">In the way:</p>
          <ul class="half">
            {report.in_the_way.map((fact) => (
              <li key={fact}>
                <a href={linkTo("proofs", fact)}>
                  <Code text={fact} />
                </a>
              </li>
            ))}
          </ul>
        </>
      )}
      <ul class="report">
        {reportLines(report.text)
          .filter(({ subject }) => !subject.startsWith("Missing:") && !subject.startsWith("In the way:"))
          .map(({ depth, mark, subject, remark }, index) => (
            <li key={index} class={mark ?? "plain"} style={{ paddingLeft: `${depth * 14}px` }}>
              {mark && <span class="mark" role="img" aria-label={mark === "holds" ? "holds" : mark === "fails" ? "does not hold" : "cannot be told"} />}
              {mark === "fails" && isFact(subject) ? (
                <a href={linkTo("proofs", subject)}>
                  <Code text={subject} />
                </a>
              ) : mark || subject.includes(":-") ? (
                <Code text={subject} />
              ) : (
                <span class="quiet">{subject}</span>
              )}
              {remark && <span class="quiet"> {remark}</span>}
            </li>
          ))}
      </ul>
    </section>
  );
}

function Missing({ facts }: { facts: readonly string[] }) {
  const [looked, setLooked] = useState<Change>();
  const [error, setError] = useState<unknown>();
  const closed = facts.filter(isFact);
  const look = async () => {
    try {
      const answer = await post<WhatIf>("/what-if?rows=20", { add: closed.map((fact) => `${fact}.`).join(" ") });
      setLooked(answer.change);
      setError(undefined);
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <div class="missing">
      <p class="quiet">{facts.length === 1 ? "This fact is missing:" : "These facts are missing:"}</p>
      <ul class="half missing-facts">
        {facts.map((fact) => (
          <li key={fact}>
            <Code text={fact} />
          </li>
        ))}
      </ul>
      {closed.length > 0 && closed.length === facts.length && (
        <button type="button" onClick={() => void look()}>
          What if {facts.length === 1 ? "it" : "they"} held?
        </button>
      )}
      <ErrorNote error={error} />
      {looked && <ChangeTable change={looked} nothing="Nothing else would follow." />}
    </div>
  );
}
