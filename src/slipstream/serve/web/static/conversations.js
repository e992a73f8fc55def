// Conversations, kept in this browser: one entry each, so that two tabs do not overwrite others.
import { computed, signal } from "./html.js";
import { BLANK } from "./fields.js";
import { read, write } from "./storage.js";

const PREFIX = "slipstream.chat.";
const LAST_SETTINGS = "slipstream.settings";
const TITLE = 48; // characters

/** id -> { id, title, created, updated, settings, messages } */
export const conversations = signal(load());
export const currentId = signal(null);
export const listed = computed(() =>
  Object.values(conversations.value).sort((a, b) => b.updated - a.updated));
export const current = computed(() => conversations.value[currentId.value] ?? draft.value);

/** What is on screen before its first message: not yet in the list. */
const draft = signal(blank());

function blank() {
  const now = Date.now();
  const settings = { ...BLANK, ...read(LAST_SETTINGS, {}) };
  return { id: crypto.randomUUID?.() ?? `${now}-${Math.random()}`, title: "", created: now, updated: now, settings, messages: [] };
}

function load() {
  const found = {};
  for (let index = 0; index < localStorage.length; index += 1) {
    const name = localStorage.key(index);
    if (!name.startsWith(PREFIX)) continue;
    const kept = sound(read(name, null));
    if (kept) found[kept.id] = kept;
  }
  return found;
}

/** `kept` as a conversation, or null. An answer that was cut off by a reload is a stopped one. */
function sound(kept) {
  if (typeof kept?.id !== "string" || !Array.isArray(kept.messages)) return null;
  const messages = kept.messages
    .filter((one) => typeof one?.content === "string")
    .map((one) => (one.state === "running" ? { ...one, state: "stopped" } : one));
  const title = String(kept.title || "Untitled");
  return { ...kept, title, settings: { ...BLANK, ...kept.settings }, messages };
}

export function startNew() {
  draft.value = blank();
  currentId.value = null;
}

export function show(id) {
  currentId.value = id;
}

/** Applies `change` to a conversation. `keep` false leaves it unsaved for now. */
export function update(id, change, { keep = true } = {}) {
  const before = conversations.value[id] ?? (draft.value.id === id ? draft.value : null);
  if (before === null) return; // deleted meanwhile
  const after = { ...before, ...change(before) };
  if (before === draft.value && !after.messages.length) {
    draft.value = after;
    return;
  }
  after.title ||= titled(after.messages[0].content);
  conversations.value = { ...conversations.value, [id]: after };
  if (before === draft.value) currentId.value = id;
  if (keep) write(PREFIX + id, after);
}

export function updateSettings(id, settings) {
  update(id, (one) => ({ settings: { ...one.settings, ...settings } }));
  const { system, tools, more, ...lasting } = current.value.settings;
  write(LAST_SETTINGS, lasting);
}

export function rename(id, title) {
  if (title.trim()) update(id, () => ({ title: title.trim() }));
}

/** Takes a conversation out and returns it, for `restore`. */
export function remove(id) {
  const { [id]: gone, ...rest } = conversations.value;
  conversations.value = rest;
  localStorage.removeItem(PREFIX + id);
  if (currentId.value === id) startNew();
  return gone;
}

export function restore(gone) {
  const conversation = sound(gone);
  conversations.value = { ...conversations.value, [conversation.id]: conversation };
  write(PREFIX + conversation.id, conversation);
}

function titled(text) {
  const line = text.trim().split("\n")[0];
  return line.length > TITLE ? `${line.slice(0, TITLE - 1)}…` : line || "Untitled";
}

/** Reads conversations out of an exported file. Returns how many there were. */
export function importFrom(text) {
  const given = JSON.parse(text);
  const kept = (Array.isArray(given) ? given : [given]).filter(sound);
  kept.forEach(restore);
  return kept.length;
}

addEventListener("storage", (event) => {
  if (!event.key?.startsWith(PREFIX)) return;
  const id = event.key.slice(PREFIX.length);
  const kept = event.newValue === null ? null : sound(read(event.key, null));
  const { [id]: before, ...rest } = conversations.value;
  conversations.value = kept ? { ...rest, [id]: kept } : rest;
});
