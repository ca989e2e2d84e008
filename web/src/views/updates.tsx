/** The stream of updates: latency and work of the last commits as a chart that moves, and what each of them did. */

import { useState } from "preact/hooks";
import type { Commit } from "../api/types";
import { Chart } from "../parts/chart";
import { Code } from "../parts/code";
import { Empty } from "../parts/notices";
import { clock, count, counted, duration, short } from "../parts/numbers";
import { connection, picture } from "../state/live";
import { changesRules, sumOf, workOf } from "../state/picture";
import { goTo, linkTo } from "../state/route";
import { Figure } from "../parts/figure";

const CHARTED = 80;
const LISTED = 40;

export function UpdatesView({ subject }: { subject: string }) {
  const [held, setHeld] = useState<readonly Commit[]>();
  const commits = held ?? picture.value.commits;
  if (!commits.length) {
    return (
      <section class="panel">
        <Empty title={connection.value === "open" ? "No update yet." : "Waiting for the server …"}>
          <p>Each update will appear here, with the time it took and the work it was.</p>
        </Empty>
      </section>
    );
  }
  const charted = commits.slice(-CHARTED);
  const chosen = commits.find(({ update }) => String(update) === subject);
  const select = (update: number) => goTo("updates", String(update));
  return (
    <div class="stack">
      <section class="panel" aria-label="Latency and work">
        <div class="panel-head">
          <h2>Updates</h2>
          <span class="quiet">
            the last {count(charted.length)}, on logarithmic scales
          </span>
          <span class="grow" />
          <button type="button" aria-pressed={held !== undefined} onClick={() => setHeld(held ? undefined : picture.value.commits)}>
            {held ? "Go on" : "Pause"}
          </button>
        </div>
        <Summary commits={charted} />
        <Chart
          title="Latency, with the engine's share in the darker colour"
          kind="latency"
          bars={charted.map((commit) => ({ key: commit.update, value: commit.latency, part: commit.seconds, label: latencyLabel(commit) }))}
          format={duration}
          selected={chosen?.update}
          onSelect={select}
        />
        <Chart
          title="Work, in rule applications"
          kind="work"
          bars={charted.map((commit) => ({ key: commit.update, value: workOf(commit), label: workLabel(commit) }))}
          format={short}
          selected={chosen?.update}
          onSelect={select}
        />
      </section>
      {chosen && <CommitPanel commit={chosen} />}
      <section class="panel" aria-label="Last updates">
        <div class="table-frame">
          <table class="commits">
            <thead>
              <tr>
                <th scope="col" class="number">update</th>
                <th scope="col">at</th>
                <th scope="col" class="number">came</th>
                <th scope="col" class="number">went</th>
                <th scope="col" class="number">latency</th>
                <th scope="col" class="number">engine</th>
                <th scope="col" class="number">work</th>
                <th scope="col">touched</th>
              </tr>
            </thead>
            <tbody>
              {commits.slice(-LISTED).toReversed().map((commit) => (
                <CommitRow key={commit.update} commit={commit} chosen={commit === chosen} />
              ))}
            </tbody>
          </table>
        </div>
      </section>
    </div>
  );
}

/** A measured time. Of updates before the server started, only the journal knows, which has no times. */
function measured(seconds: number): string {
  return seconds > 0 ? duration(seconds) : "–";
}

function latencyLabel(commit: Commit): string {
  return `Update ${commit.update}: ${measured(commit.latency)}, engine ${measured(commit.seconds)}`;
}

function workLabel(commit: Commit): string {
  return `Update ${commit.update}: ${counted(workOf(commit), "rule application")}`;
}

function Summary({ commits }: { commits: readonly Commit[] }) {
  const timed = commits.map(({ latency }) => latency).filter((latency) => latency > 0);
  const latencies = timed.sort((left, right) => left - right);
  const at = (share: number) => latencies[Math.min(latencies.length - 1, Math.floor(share * latencies.length))] ?? 0;
  const [first, last] = [commits[0], commits.at(-1)];
  const span = first && last ? (Date.parse(last.at) - Date.parse(first.at)) / 1000 : 0;
  return (
    <dl class="figures">
      <Figure name="median latency" value={measured(at(0.5))} />
      <Figure name="99th percentile" value={measured(at(0.99))} />
      <Figure name="commits a second" value={span > 0 ? short(Math.round((10 * (commits.length - 1)) / span) / 10) : "–"} />
      <Figure name="facts now" value={count(picture.value.facts ?? 0)} />
    </dl>
  );
}

function CommitRow({ commit, chosen }: { commit: Commit; chosen: boolean }) {
  const touched = [...new Set([...Object.keys(commit.added), ...Object.keys(commit.removed)])];
  const [came, went] = [sumOf(commit.added), sumOf(commit.removed)];
  return (
    <tr class={chosen ? "chosen" : ""}>
      <td class="number">
        <a href={linkTo("updates", String(commit.update))} aria-current={chosen ? "true" : undefined}>
          {commit.update}
        </a>
      </td>
      <td>{clock(commit.at)}</td>
      <td class="number">{came ? <span class="came">+{short(came)}</span> : "0"}</td>
      <td class="number">{went ? <span class="went">−{short(went)}</span> : "0"}</td>
      <td class="number">{measured(commit.latency)}</td>
      <td class="number">{measured(commit.seconds)}</td>
      <td class="number">{short(workOf(commit))}</td>
      <td class="touched">
        {changesRules(commit) && <span class="badge">rules</span>}
        <span class="mono">{touched.slice(0, 4).join(", ")}</span>
        {touched.length > 4 && ` and ${touched.length - 4} more`}
      </td>
    </tr>
  );
}

function CommitPanel({ commit }: { commit: Commit }) {
  const touched = [...new Set([...Object.keys(commit.added), ...Object.keys(commit.removed)])].sort();
  const work = Object.entries(commit.work).filter(([, value]) => value > 0);
  return (
    <section class="panel" aria-label={`Update ${commit.update}`}>
      <div class="panel-head">
        <h2>Update {commit.update}</h2>
        <span class="quiet">
          {clock(commit.at)}
          {commit.together > 1 && ` · ${commit.together} requests together`}
          {commit.errors > 0 && ` · ${counted(commit.errors, "failure")}`}
        </span>
      </div>
      <dl class="figures">
        <Figure name="latency" value={measured(commit.latency)} />
        <Figure name="engine" value={measured(commit.seconds)} />
        {work.map(([kind, value]) => (
          <Figure key={kind} name={kind.replace("_", " ")} value={count(value)} />
        ))}
      </dl>
      <ul class="half came">
        {commit.rules.added.map((rule) => (
          <li key={rule}>
            <span class="sign">+</span>
            <Code text={rule} />
          </li>
        ))}
      </ul>
      <ul class="half went">
        {commit.rules.removed.map((rule) => (
          <li key={rule}>
            <span class="sign">−</span>
            <Code text={rule} />
          </li>
        ))}
      </ul>
      <ul class="touched-list">
        {touched.map((name) => (
          <li key={name}>
            <a class="mono" href={linkTo("facts", name)}>
              {name}
            </a>
            {commit.added[name] && <span class="came">+{count(commit.added[name])}</span>}
            {commit.removed[name] && <span class="went">−{count(commit.removed[name])}</span>}
          </li>
        ))}
      </ul>
      {!touched.length && <p class="quiet pad">No fact came or went.</p>}
    </section>
  );
}
