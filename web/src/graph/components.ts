/** Components of a program: the predicates that depend on each other, with all rules that derive them.
 *
 * The server's graph has hyper-nodes, which tell a recursive rule from the rule that it starts from. Hyper-nodes that
 * derive the same predicate are one component, the unit in which facts are maintained.
 */

import type { RuleGraph } from "../api/types";

export interface Component {
  /** The number of its first rule. */
  readonly id: number;
  readonly predicates: readonly string[];
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
    return {
      id,
      predicates,
      rules: group.flatMap(({ rules }) => rules),
      numbers: group.flatMap(({ numbers }) => numbers),
      reads: unique(group.flatMap(({ reads }) => reads)).filter((name) => !derived.has(name)),
      sources: unique(incoming.map(({ source }) => owner.get(source) as number)),
      strict: unique(incoming.filter(({ strict }) => strict).map(({ source }) => owner.get(source) as number)),
      recursive: group.some(({ recursive }) => recursive),
      stratum: Math.max(...group.map(({ stratum }) => stratum)),
      facts: sum(predicates.map((name) => sizes.get(name) ?? 0)),
      seconds: sum(group.map(({ seconds }) => seconds)),
      applications: sum(group.map(({ applications }) => applications)),
    };
  });
}

/** Hyper-nodes that share a predicate, in the order of the graph. */
function groupsOf(graph: RuleGraph): RuleGraph["hyper_nodes"][number][][] {
  const groupOf = new Map<string, RuleGraph["hyper_nodes"][number][]>();
  for (const node of graph.hyper_nodes) {
    const shared = unique(node.predicates.flatMap((name) => groupOf.get(name) ?? []));
    const group = [...shared, node];
    for (const name of group.flatMap(({ predicates }) => predicates)) groupOf.set(name, group);
  }
  return unique([...groupOf.values()]);
}

function unique<T>(items: readonly T[]): T[] {
  return [...new Set(items)];
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
