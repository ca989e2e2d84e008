/** Light or dark: as the system says, unless somebody has chosen. */

import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const KEPT = "tidelog-theme";

function kept(): Theme {
  const value = localStorage.getItem(KEPT);
  return value === "light" || value === "dark" ? value : "system";
}

export const theme = signal<Theme>(kept());

export function applyTheme(): void {
  effect(() => {
    document.documentElement.dataset.theme = theme.value;
    if (theme.value === "system") localStorage.removeItem(KEPT);
    else localStorage.setItem(KEPT, theme.value);
  });
}
