/** Components of a program: the predicates that depend on each other, with all rules that derive them.
 *
 * The server's graph has hyper-nodes, which tell a recursive rule from the rule that it starts from. Hyper-nodes that
 * derive the same predicate are one component, the unit in which facts are maintained. A part of a rule, such as an
 * aggregate in its body, belongs to the component that it is for; a constraint derives nothing, and stands by itself.
 */

import type { RuleGraph } from "../api/types";

type HyperNode = RuleGraph["hyper_nodes"][number];

export interface Component {
  /** The number of its first rule. */
  readonly id: number;
  readonly predicates: readonly string[];
  /** Its predicates, or what it is where it has none. */
  readonly name: string;
  readonly rules: readonly string[];
  readonly numbers: readonly number[];
  /** Predicates that it reads and that no rule derives. */
  readonly reads: readonly string[];
  /** Components that it reads, by their ids; those that it reads through negation or an aggregate are `strict`, too. */
  readonly sources: readonly number[];
  readonly strict: readonly number[];
  readonly recursive: boolean;
  readonly stratum: number;
  readonly facts: number;
  readonly seconds: number;
  readonly applications: number;
}

export function componentsOf(graph: RuleGraph): Component[] {
  const groups = groupsOf(graph);
  const owner = new Map(groups.flatMap((group) => group.map((node) => [node.id, group[0]?.id as number] as const)));
  const sizes = new Map(graph.predicates.map(({ name, facts }) => [name, facts]));
  const derived = new Set(graph.hyper_nodes.flatMap(({ predicates }) => predicates));
  return groups.map((group) => {
    const id = group[0]?.id as number;
    const incoming = graph.edges.filter(({ source, target }) => owner.get(target) === id && owner.get(source) !== id);
    const predicates = unique(group.flatMap((node) => node.predicates));
    const rules = unique(group.flatMap((node) => node.rules));
    // Hyper-nodes of the same rules tell the same costs.
    const told = [...new Map(group.map((node) => [node.numbers.join(), node])).values()];
    return {
      id,
      predicates,
      name: predicates.join(", ") || (rules.some(isConstraint) ? "constraint" : "part of a rule"),
      rules,
      numbers: unique(group.flatMap(({ numbers }) => numbers)),
      reads: unique(group.flatMap(({ reads }) => reads)).filter((name) => !derived.has(name)),
      sources: unique(incoming.map(({ source }) => owner.get(source) as number)),
      strict: unique(incoming.filter(({ strict }) => strict).map(({ source }) => owner.get(source) as number)),
      recursive: group.some(({ recursive }) => recursive),
      stratum: Math.max(...group.map(({ stratum }) => stratum)),
      facts: sum(predicates.map((name) => sizes.get(name) ?? 0)),
      seconds: sum(told.map(({ seconds }) => seconds)),
      applications: sum(told.map(({ applications }) => applications)),
    };
  });
}

function isConstraint(rule: string): boolean {
  return rule.startsWith(":-") || rule.startsWith("@constraint");
}

/** Hyper-nodes that share a predicate, in the order of the graph, each with the parts that are for it alone. */
function groupsOf(graph: RuleGraph): HyperNode[][] {
  const groupOf = new Map<string, HyperNode[]>();
  for (const node of graph.hyper_nodes) {
    const shared = unique(node.predicates.flatMap((name) => groupOf.get(name) ?? []));
    const group = [...shared, node];
    for (const name of group.flatMap(({ predicates }) => predicates)) groupOf.set(name, group);
  }
  const groups = unique([...groupOf.values()]);
  const owner = new Map(groups.flatMap((group) => group.map((node) => [node.id, group] as const)));
  // Later hyper-nodes read earlier ones.
  for (const node of graph.hyper_nodes.toReversed()) {
    if (owner.has(node.id)) continue;
    const readers = unique(graph.edges.filter(({ source }) => source === node.id).map(({ target }) => owner.get(target)));
    const only = readers.length === 1 ? readers[0] : undefined;
    const group = only ?? [];
    group.push(node);
    owner.set(node.id, group);
    if (!only) groups.push(group);
  }
  return groups;
}

function unique<T>(items: readonly T[]): T[] {
  return [...new Set(items)];
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
