/** The frame of the page: its views, who is looking, and whether it hears of updates. */

import { useEffect, useState } from "preact/hooks";
import { ErrorNote } from "./parts/notices";
import { count, counted } from "./parts/numbers";
import { connection, picture } from "./state/live";
import { linkTo, route, VIEWS, type View } from "./state/route";
import { loadSession, maySee, session, signOut } from "./state/session";
import { type Theme, theme } from "./state/theme";
import { FactsView } from "./views/facts";
import { GraphView } from "./views/graph";
import { ProofsView } from "./views/proofs";
import { QueriesView } from "./views/queries";
import { RulesView } from "./views/rules";
import { TokenView } from "./views/token";
import { UpdatesView } from "./views/updates";

const TITLES: Readonly<Record<View, string>> = {
  facts: "Facts",
  rules: "Rules",
  queries: "Queries",
  graph: "Graph",
  proofs: "Proofs",
  updates: "Updates",
};

export function App() {
  const [error, setError] = useState<unknown>();
  const load = () => {
    setError(undefined);
    loadSession().catch(setError);
  };
  useEffect(load, []);
  const { view, subject } = route.value;
  useEffect(() => {
    document.title = `${subject || TITLES[view]} · tidelog`;
  }, [view, subject]);
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <Header />
      <main id="main" tabIndex={-1} class={`view-${view}`}>
        <h1 class="hidden">{TITLES[view]}</h1>
        {error ? (
          <ErrorNote error={error} again={load} />
        ) : !session.value ? (
          <p class="quiet pad">Connecting …</p>
        ) : !maySee.value ? (
          <TokenView />
        ) : (
          <CurrentView view={view} subject={subject} />
        )}
      </main>
    </>
  );
}

/** The address keeps the view, so that the link does not change it. */
function skip(event: MouseEvent) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function CurrentView({ view, subject }: { view: View; subject: string }) {
  switch (view) {
    case "facts":
      return <FactsView subject={subject} />;
    case "rules":
      return <RulesView />;
    case "queries":
      return <QueriesView />;
    case "graph":
      return <GraphView subject={subject} />;
    case "proofs":
      return <ProofsView subject={subject} />;
    case "updates":
      return <UpdatesView subject={subject} />;
  }
}

function Header() {
  return (
    <header class="top">
      <a class="brand" href={linkTo("facts")} aria-label="tidelog">
        <svg viewBox="0 0 32 32" aria-hidden="true">
          <path d="M4 13c4-5 8-5 12 0s8 5 12 0" />
          <path d="M4 21c4-5 8-5 12 0s8 5 12 0" class="second" />
        </svg>
        <span>tidelog</span>
      </a>
      {maySee.value && (
        <nav class="views" aria-label="Views">
          {VIEWS.map((view) => (
            <a key={view} href={linkTo(view)} aria-current={view === route.value.view ? "page" : undefined}>
              {TITLES[view]}
            </a>
          ))}
        </nav>
      )}
      <div class="top-end">
        {maySee.value && <State />}
        <ThemeButton />
        {maySee.value && session.value?.tokens && (
          <button type="button" onClick={() => void signOut()}>
            Sign out
          </button>
        )}
      </div>
    </header>
  );
}

const STATES = {
  open: "Hears of every update",
  waiting: "Not connected; tries again",
  ended: "You may not hear of updates: reload the page to see what is new",
} as const;

function State() {
  const { update, facts } = picture.value;
  const state = connection.value;
  return (
    <p class="state" role="status" aria-live="off" title={STATES[state]}>
      <span class={state === "open" ? "dot live" : "dot"} aria-hidden="true" />
      {state === "waiting" ? (
        <span>reconnecting …</span>
      ) : (
        <>
          <span class="state-facts">{counted(facts ?? 0, "fact")}</span>
          <span class="state-update">update {count(update)}</span>
        </>
      )}
    </p>
  );
}

const NEXT: Readonly<Record<Theme, Theme>> = { system: "light", light: "dark", dark: "system" };
const SIGNS: Readonly<Record<Theme, string>> = { system: "◐", light: "☀", dark: "☾" };

function ThemeButton() {
  const title = `Colours: ${theme.value === "system" ? "as the system" : theme.value}`;
  return (
    <button type="button" class="icon" aria-label={title} title={title} onClick={() => (theme.value = NEXT[theme.value])}>
      {SIGNS[theme.value]}
    </button>
  );
}
