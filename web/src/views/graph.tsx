/** The rule graph: components with their sizes and the time spent in them, and the rules of the one that is chosen. */

import { useEffect, useMemo } from "preact/hooks";
import { get } from "../api/client";
import type { ListedRule, RuleGraph, Rules } from "../api/types";
import { type Component, componentsOf } from "../graph/components";
import { useAsked } from "../parts/asked";
import { Code } from "../parts/code";
import { Dag, type DagBox } from "../parts/dag";
import { Figure } from "../parts/figure";
import { useNarrow } from "../parts/narrow";
import { Empty, ErrorNote } from "../parts/notices";
import { count, counted, duration, short } from "../parts/numbers";
import { useThrottled } from "../parts/timing";
import { onCommits } from "../state/live";
import { goTo, linkTo } from "../state/route";

// A drawing of more than this would show nothing, and take long to make.
const MOST_DRAWN = 300;
const AT_MOST_EVERY = 1000; // milliseconds

interface Shown {
  readonly components: readonly Component[];
  /** Predicates that no rule derives, and their sizes. */
  readonly given: ReadonlyMap<string, number>;
  readonly rules: readonly ListedRule[];
}

async function ask(signal: AbortSignal): Promise<Shown> {
  const [graph, { rules }] = await Promise.all([get<RuleGraph>("/graph", {}, signal), get<Rules>("/rules", {}, signal)]);
  const components = componentsOf(graph);
  const sizes = new Map(graph.predicates.map(({ name, facts }) => [name, facts]));
  const names = [...new Set(components.flatMap(({ reads }) => reads))].sort();
  return { components, given: new Map(names.map((name) => [name, sizes.get(name) ?? 0])), rules };
}

export function GraphView({ subject }: { subject: string }) {
  const asked = useAsked(ask, []);
  const againSoon = useThrottled(asked.again, AT_MOST_EVERY);
  useEffect(() => onCommits(againSoon), []);

  if (asked.error) return <ErrorNote error={asked.error} again={asked.again} />;
  if (!asked.answer) return <p class="quiet pad">Loading …</p>;
  const { components, given, rules } = asked.answer;
  if (!components.length) {
    return (
      <section class="panel">
        <Empty title="There are no rules yet.">
          <p>
            <a href={linkTo("rules")}>Write one</a>, and see here what depends on what.
          </p>
        </Empty>
      </section>
    );
  }
  return (
    <div class="split wide-left graph-view">
      <section class="panel graph-panel" aria-label="Rule graph">
        <div class="panel-head">
          <h2>Rule graph</h2>
          <span class="quiet">
            {counted(rules.length, "rule")} in {counted(components.length, "component")}
          </span>
        </div>
        {components.length + given.size > MOST_DRAWN ? (
          <ComponentList components={components} />
        ) : (
          <Drawing shown={asked.answer} selected={subject} />
        )}
        <p class="legend" aria-hidden="true">
          <span class="key explicit" /> given <span class="key derived" /> derived <span class="key heat" /> time spent
          <span class="key dashed" /> through negation or an aggregate
        </p>
      </section>
      <Chosen subject={subject} shown={asked.answer} />
    </div>
  );
}

function Chosen({ subject, shown }: { subject: string; shown: Shown }) {
  const component = shown.components.find(({ id }) => String(id) === subject);
  if (component) return <ComponentPanel component={component} rules={shown.rules} />;
  const name = subject.startsWith("p:") ? subject.slice(2) : "";
  const facts = shown.given.get(name);
  if (facts !== undefined) return <PredicatePanel name={name} facts={facts} components={shown.components} />;
  return <Costly shown={shown} />;
}

function Drawing({ shown, selected }: { shown: Shown; selected: string }) {
  const narrow = useNarrow();
  const boxes = useMemo(() => boxesOf(shown), [shown]);
  const strict = useMemo(
    () => new Set(shown.components.flatMap((component) => component.strict.map((source) => `${source} ${component.id}`))),
    [shown],
  );
  return (
    <Dag
      boxes={boxes}
      direction={narrow ? "down" : "right"}
      title="Rule graph"
      selected={selected}
      onSelect={(id) => goTo("graph", id)}
      edgeKind={(source, target) => (strict.has(`${source} ${target}`) ? "strict" : "")}
    />
  );
}

/** Given predicates and components as boxes. */
function boxesOf({ components, given }: Shown): DagBox[] {
  const slowest = Math.max(...components.map(({ seconds }) => seconds));
  const sources = [...given].map(([name, facts]): DagBox => {
    const line = short(facts) + (facts === 1 ? " fact" : " facts");
    return {
      id: `p:${name}`,
      parents: [],
      width: widthOf([name, line]),
      height: 46,
      kind: "given",
      label: `${name}, ${counted(facts, "fact")}`,
      content: (
        <>
          <span class="box-title">{name}</span>
          <span class="box-line">{line}</span>
        </>
      ),
    };
  });
  const derived = components.map((component): DagBox => {
    const name = component.name;
    const facts = component.predicates.length ? `${short(component.facts)}${component.facts === 1 ? " fact" : " facts"} · ` : "";
    const line = facts + duration(component.seconds);
    return {
      id: String(component.id),
      parents: [...component.sources.map(String), ...component.reads.map((read) => `p:${read}`)],
      width: widthOf([name + (component.recursive ? "  ↻" : ""), line]),
      height: 54,
      kind: "derived",
      label: labelOf(component),
      content: (
        <>
          <span class="box-title">
            {name}
            {component.recursive && <span class="recursive"> ↻</span>}
          </span>
          <span class="box-line">{line}</span>
          <Heat seconds={component.seconds} most={slowest} />
        </>
      ),
    };
  });
  return [...sources, ...derived];
}

function labelOf({ name, recursive, rules, facts, seconds }: Component): string {
  const kind = recursive ? "recursive, " : "";
  return `${name}, ${kind}${counted(rules.length, "rule")}, ${counted(facts, "fact")}, ${duration(seconds)}`;
}

function widthOf(lines: readonly string[]): number {
  return Math.min(280, Math.max(96, 36 + 7.9 * Math.max(...lines.map((line) => line.length))));
}

function Heat({ seconds, most }: { seconds: number; most: number }) {
  return seconds > 0 ? <span class="heat" aria-hidden="true" style={{ width: `${Math.max(2, (100 * seconds) / most)}%` }} /> : null;
}

function ComponentPanel({ component, rules }: { component: Component; rules: readonly ListedRule[] }) {
  return (
    <section class="panel" aria-label="Chosen component">
      <div class="panel-head">
        <h2 class="mono">{component.name}</h2>
        <span class="quiet">
          {component.recursive ? "recursive · " : ""}stratum {component.stratum}
        </span>
      </div>
      <dl class="figures">
        <Figure name="facts" value={count(component.facts)} />
        <Figure name="time spent" value={duration(component.seconds)} />
        <Figure name="rule applications" value={count(component.applications)} />
      </dl>
      <RuleCosts rules={rules.filter(({ number }) => component.numbers.includes(number))} />
      <p class="pad">
        {component.predicates.map((name) => (
          <a key={name} href={linkTo("facts", name)}>
            Facts of {name}
          </a>
        ))}
      </p>
    </section>
  );
}

function PredicatePanel({ name, facts, components }: { name: string; facts: number; components: readonly Component[] }) {
  const readers = components.filter(({ reads }) => reads.includes(name));
  return (
    <section class="panel" aria-label="Chosen predicate">
      <div class="panel-head">
        <h2 class="mono">{name}</h2>
        <span class="quiet">given, {counted(facts, "fact")}</span>
      </div>
      <p class="pad quiet">Read by {readers.map(({ name }) => name).join(", ")}, in</p>
      <ul class="half">
        {readers.flatMap(({ rules }) =>
          rules.map((rule) => (
            <li key={rule}>
              <Code text={rule} />
            </li>
          )),
        )}
      </ul>
      <p class="pad">
        <a href={linkTo("facts", name)}>Facts of {name}</a>
      </p>
    </section>
  );
}

/** Nothing is chosen: the rules that took the most time. */
function Costly({ shown: { components, rules } }: { shown: Shown }) {
  const costly = rules.toSorted((left, right) => right.seconds - left.seconds || right.applications - left.applications).slice(0, 8);
  const ownerOf = (number: number) => components.find(({ numbers }) => numbers.includes(number))?.id ?? "";
  return (
    <section class="panel" aria-label="Costliest rules">
      <div class="panel-head">
        <h2>Costliest rules</h2>
        <span class="quiet">choose a box for its rules</span>
      </div>
      <RuleCosts rules={costly} link={(number) => linkTo("graph", String(ownerOf(number)))} />
    </section>
  );
}

function RuleCosts({ rules, link }: { rules: readonly ListedRule[]; link?: (number: number) => string }) {
  const most = Math.max(...rules.map(({ seconds }) => seconds));
  return (
    <ol class="rule-costs">
      {rules.map((rule) => (
        <li key={rule.number}>
          {link ? (
            <a href={link(rule.number)}>
              <Code text={rule.text} />
            </a>
          ) : (
            <Code text={rule.text} />
          )}
          <p class="quiet">
            {duration(rule.seconds)} · {counted(rule.applications, "application")}
            {rule.facts > 0 && ` · first to derive ${counted(rule.facts, "fact")}`}
          </p>
          <Heat seconds={rule.seconds} most={most} />
        </li>
      ))}
    </ol>
  );
}

function ComponentList({ components }: { components: readonly Component[] }) {
  const costly = components.toSorted((left, right) => right.seconds - left.seconds).slice(0, MOST_DRAWN);
  return (
    <>
      <p class="note">There are too many components for a drawing. These are the ones with the most time spent.</p>
      <ul class="node-list">
        {costly.map((component) => (
          <li key={component.id}>
            <a href={linkTo("graph", String(component.id))} class="mono">
              {component.name}
            </a>
            <span class="quiet">
              {short(component.facts)} facts · {duration(component.seconds)}
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}
