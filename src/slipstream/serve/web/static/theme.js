// Light, dark, or as the system has it.
import { effect, signal } from "./html.js";

const KEY = "slipstream.theme";
const NEXT = { auto: "light", light: "dark", dark: "auto" };
const stored = localStorage.getItem(KEY);

export const theme = signal(stored in NEXT ? stored : "auto");
export const systemDark = signal(false);

const media = matchMedia("(prefers-color-scheme: dark)");
systemDark.value = media.matches;
media.addEventListener("change", () => { systemDark.value = media.matches; });

effect(() => {
  const chosen = theme.value;
  if (chosen === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  localStorage.setItem(KEY, chosen);
});

export function nextTheme() {
  theme.value = NEXT[theme.value];
}
