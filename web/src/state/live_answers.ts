/** The answers of a query that stays open: a snapshot, then what comes and goes. Pure, for one event after the other. */

import { parseJson, type Row } from "../language/values";
import type { ServerEvent } from "../api/events";
import { type LitRow, unlit, withChange } from "./lit_rows";

export interface LiveAnswers {
  readonly update: number;
  readonly variables: readonly string[];
  readonly rows: readonly LitRow[];
  /** The parts of a snapshot that is not complete yet. */
  readonly arriving: readonly Row[];
}

export const NO_ANSWERS: LiveAnswers = { update: 0, variables: [], rows: [], arriving: [] };

interface Snapshot {
  readonly update: number;
  readonly variables: readonly string[];
  readonly rows: readonly Row[];
  readonly more: boolean;
}

interface Difference {
  readonly update: number;
  readonly added: readonly Row[];
  readonly removed: readonly Row[];
}

export function afterEvent(answers: LiveAnswers, event: ServerEvent, now: number): LiveAnswers {
  switch (event.event) {
    case "snapshot": {
      const { update, variables, rows, more } = parseJson<Snapshot>(event.data);
      const arrived = [...answers.arriving, ...rows];
      if (more) return { ...answers, variables, arriving: arrived };
      return { update, variables, rows: unlit(arrived), arriving: [] };
    }
    case "change": {
      const { update, added, removed } = parseJson<Difference>(event.data);
      return { ...answers, update, rows: withChange(answers.rows, added, removed, now) };
    }
    case "progress":
      return { ...answers, update: parseJson<{ update: number }>(event.data).update };
    case "reset":
      return { ...answers, rows: [], arriving: [] };
    default:
      return answers; // After an `error` the stream ends, and the answer to the next request says why.
  }
}
