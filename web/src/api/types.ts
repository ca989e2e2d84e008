/** What the server says, as far as the page reads it. */

import type { Row } from "../language/values";

export type Role = "read" | "write" | "rules" | "admin";

export interface Session {
  readonly roles: readonly Role[];
  readonly tokens: boolean;
  readonly version: string;
}

export interface Mistake {
  readonly line: number;
  readonly column: number;
  readonly end_column?: number | null;
  readonly message: string;
  readonly hint?: string | null;
  readonly severity?: "error" | "warning";
}

export interface ProblemDocument {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail?: string;
  readonly mistakes?: readonly Mistake[];
  readonly limit?: { readonly name: string; readonly value: number };
}

export interface Predicate {
  readonly name: string;
  readonly arity: number;
  readonly facts: number;
  /** How many of its facts are explicit; null where that is not known any more. */
  readonly explicit: number | null;
  readonly derived: boolean;
  /** The names of its columns, and what it is about, as they are declared. */
  readonly columns: readonly string[];
  readonly text: string;
}

export interface Predicates {
  readonly update: number;
  readonly predicates: readonly Predicate[];
}

export interface FactPage {
  readonly update: number;
  readonly predicate: string;
  readonly arity: number;
  readonly rows: readonly Row[];
  readonly next: string | null;
  readonly total: number | null;
}

export interface Answers {
  readonly update: number;
  readonly variables: readonly string[];
  readonly rows: readonly Row[];
  readonly more: boolean;
  readonly errors: number;
  readonly warnings: readonly string[];
}

export interface ListedRule {
  readonly number: number;
  readonly text: string;
  readonly head: string;
  readonly facts: number;
  readonly applications: number;
  readonly seconds: number;
}

export interface Undoable {
  readonly update: number;
  readonly added: readonly string[];
  readonly removed: readonly string[];
}

export interface Rules {
  readonly update: number;
  readonly text: string;
  readonly rules: readonly ListedRule[];
  readonly prefixes: Readonly<Record<string, string>>;
  readonly undo: Undoable | null;
}

export interface HyperNode {
  readonly id: number;
  readonly rules: readonly string[];
  readonly numbers: readonly number[];
  readonly predicates: readonly string[];
  readonly reads: readonly string[];
  readonly recursive: boolean;
  readonly stratum: number;
  readonly facts: number;
  readonly seconds: number;
  readonly applications: number;
}

export interface GraphEdge {
  readonly source: number;
  readonly target: number;
  readonly predicates: readonly string[];
  readonly strict: boolean;
}

export interface RuleGraph {
  readonly update: number;
  readonly hyper_nodes: readonly HyperNode[];
  readonly edges: readonly GraphEdge[];
  readonly predicates: readonly { readonly name: string; readonly facts: number; readonly derived: boolean }[];
}

export interface Step {
  readonly fact: string;
  readonly rule: string | null;
  readonly premises: readonly number[];
  readonly conditions: readonly string[];
}

export interface Proof {
  readonly fact: string;
  readonly height: number;
  readonly steps: readonly Step[];
}

export interface Explanation {
  readonly update: number;
  readonly fact: string;
  readonly holds: boolean;
  readonly proofs: readonly Proof[];
}

export interface WhyNot {
  readonly update: number;
  readonly fact: string;
  readonly holds: boolean;
  readonly text: string;
  readonly missing: readonly string[];
  readonly in_the_way: readonly string[];
}

export interface ChangeProof {
  readonly update: number;
  readonly fact: string;
  readonly came: boolean;
  readonly proof: Proof;
  readonly facts: readonly string[];
  readonly leaves: readonly string[];
  readonly negations: readonly string[];
  readonly rules: readonly string[];
  readonly why_not: string;
}

export interface Half {
  readonly count: number;
  readonly rows: readonly Row[];
}

export interface Change {
  readonly added: Readonly<Record<string, Half>>;
  readonly removed: Readonly<Record<string, Half>>;
  readonly work: Readonly<Record<string, number>>;
  readonly errors: number;
}

export interface WhatIf {
  readonly update: number;
  readonly change: Change;
  readonly impact: { readonly direct: readonly number[]; readonly plan: readonly number[] } | null;
}

export interface Updated {
  readonly update: number;
  readonly change: Change;
  readonly seconds: number;
  readonly warnings: readonly string[];
}

export interface Check {
  readonly ok: boolean;
  readonly mistakes: readonly Mistake[];
}

export interface Commit {
  readonly update: number;
  readonly at: string;
  readonly seconds: number;
  readonly latency: number;
  readonly together: number;
  readonly added: Readonly<Record<string, number>>;
  readonly removed: Readonly<Record<string, number>>;
  readonly work: Readonly<Record<string, number>>;
  readonly rules: { readonly added: readonly string[]; readonly removed: readonly string[] };
  readonly facts: number;
  readonly errors: number;
}
