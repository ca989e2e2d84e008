/** The server wants to know who is looking. */

import { useState } from "preact/hooks";
import { messageOf } from "../api/client";
import { session, signIn } from "../state/session";

export function TokenView() {
  const [token, setToken] = useState("");
  const [error, setError] = useState<string>();
  const [busy, setBusy] = useState(false);
  const enter = async () => {
    setBusy(true);
    try {
      await signIn(token.trim());
      setError(session.value?.roles.includes("read") ? undefined : "This token may not read anything.");
    } catch (problem) {
      setError(messageOf(problem));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form
      class="panel token"
      onSubmit={(event) => {
        event.preventDefault();
        void enter();
      }}
    >
      <h2>This server asks for a token</h2>
      <p class="quiet">Whoever runs it can give you one. It says what you may read and change.</p>
      <label for="token">Token</label>
      <input
        id="token"
        type="password"
        class="mono"
        autocomplete="current-password"
        value={token}
        onInput={(event) => setToken(event.currentTarget.value)}
      />
      <button type="submit" class="primary" disabled={busy || !token.trim()}>
        Enter
      </button>
      {error && (
        <p class="note error" role="alert">
          {error}
        </p>
      )}
    </form>
  );
}
