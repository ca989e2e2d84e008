/** Who is looking: the roles that the server grants, and whether it wants a token first. The token itself is given to the
 * server once, which answers with a cookie that no script can read; the page does not keep it.
 */

import { computed, signal } from "@preact/signals";
import { dropToken, get, setToken, whenUnknown } from "../api/client";
import type { Role, Session } from "../api/types";

export const session = signal<Session | undefined>(undefined);
export const maySee = computed(() => session.value?.roles.includes("read") ?? false);

export function may(role: Role): boolean {
  return session.value?.roles.includes(role) ?? false;
}

export async function loadSession(): Promise<void> {
  session.value = await get<Session>("/session");
}

export async function signIn(token: string): Promise<void> {
  await setToken(token);
  await loadSession();
}

export async function signOut(): Promise<void> {
  await dropToken();
  await loadSession();
}

whenUnknown(() => {
  if (session.value) session.value = { ...session.value, roles: [], tokens: true };
});
