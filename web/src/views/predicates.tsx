/** The predicates, with counts that move. */

import { useMemo, useState } from "preact/hooks";
import type { Predicate } from "../api/types";
import { Empty, Flash } from "../parts/notices";
import { count, counted, short } from "../parts/numbers";
import { picture } from "../state/live";
import { linkTo } from "../state/route";

// A list that nobody could read is cut; the box above it finds the rest.
const MOST = 300;

export function PredicateList({ selected }: { selected: string }) {
  const [wanted, setWanted] = useState("");
  const { predicates, moved, stale } = picture.value;
  const most = useMemo(() => Math.max(1, ...[...predicates.values()].map(({ facts }) => facts)), [predicates]);
  const names = [...predicates.keys()].sort();
  const found = names.filter((name) => name.toLowerCase().includes(wanted.trim().toLowerCase()));
  return (
    <section class="predicates panel" aria-label="Predicates">
      <div class="panel-head">
        <h2>Predicates</h2>
        <span class="quiet">{count(predicates.size)}</span>
      </div>
      <input
        type="search"
        class="filter"
        placeholder="Find a predicate"
        aria-label="Find a predicate"
        value={wanted}
        onInput={(event) => setWanted(event.currentTarget.value)}
      />
      <ul class="predicate-list">
        {found.slice(0, MOST).map((name) => {
          const predicate = predicates.get(name) as Predicate;
          return (
            <li key={name}>
              <a href={linkTo("facts", name)} class="predicate" aria-current={name === selected ? "true" : undefined}>
                <span class="predicate-name" title={name}>
                  {name}
                  <span class="arity">/{predicate.arity}</span>
                </span>
                <Flash moved={moved.get(name)} />
                <span class="predicate-count" title={counted(predicate.facts, "fact")}>
                  {short(predicate.facts)}
                </span>
                <span class="bar" aria-hidden="true">
                  <span
                    class={predicate.derived ? "bar-fill derived" : "bar-fill"}
                    style={{ width: `${share(predicate.facts, most)}%` }}
                  />
                </span>
              </a>
            </li>
          );
        })}
      </ul>
      {found.length > MOST && <p class="quiet pad">{counted(found.length - MOST, "more predicate")}: type to find one</p>}
      {!found.length && !stale && (
        <Empty title={predicates.size ? "No predicate has this in its name." : "There are no predicates yet."} />
      )}
      <p class="legend" aria-hidden="true">
        <span class="key explicit" /> given <span class="key derived" /> derived by rules
      </p>
    </section>
  );
}

/** Sizes differ by powers of ten, so that bars go by the logarithm. */
export function share(facts: number, most: number): number {
  return facts <= 0 ? 0 : Math.max(4, (100 * Math.log(1 + facts)) / Math.log(1 + most));
}
