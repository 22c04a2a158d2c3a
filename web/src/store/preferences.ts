/** What the reader's browser and the reader prefer: theme, motion, width. */

import { computed, effect, signal } from "@preact/signals";

export type Theme = "auto" | "light" | "dark";

const KEY = "dibs-theme";

export const theme = signal<Theme>(readTheme());
const prefersDark = media("(prefers-color-scheme: dark)");
export const isDark = computed(() => (theme.value === "auto" ? prefersDark.value : theme.value === "dark"));
export const reducedMotion = media("(prefers-reduced-motion: reduce)");
export const isNarrow = media("(max-width: 860px)");

effect(() => {
  if (theme.value === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme.value;
  localStorage.setItem(KEY, theme.value);
});

export function nextTheme(): void {
  theme.value = theme.value === "auto" ? "light" : theme.value === "light" ? "dark" : "auto";
}

function readTheme(): Theme {
  const stored = localStorage.getItem(KEY);
  return stored === "light" || stored === "dark" ? stored : "auto";
}

function media(query: string) {
  const list = matchMedia(query);
  const matches = signal(list.matches);
  list.addEventListener("change", () => (matches.value = list.matches));
  return matches;
}
