// What the browser keeps. A value that cannot be read back counts as absent.
import { signal } from "./html.js";

export const storageFull = signal(false);

export function read(key, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function write(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
    storageFull.value = false;
  } catch {
    storageFull.value = true;
  }
}
