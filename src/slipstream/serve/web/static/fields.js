// The settings of a conversation, and the fields of a request that they become.

export const NUMBERS = [
  { name: "temperature", label: "Temperature", min: 0, max: 2, step: 0.05, hint: "0 takes the likeliest token each time; higher is more varied" },
  { name: "top_p", label: "Top-p", min: 0, max: 1, step: 0.01, hint: "only tokens within this share of the probability" },
  { name: "top_k", label: "Top-k", min: 0, max: 1000, step: 1, hint: "only this many of the likeliest tokens; 0 is off" },
  { name: "min_p", label: "Min-p", min: 0, max: 1, step: 0.01, hint: "drops tokens below this share of the likeliest one" },
  { name: "max_tokens", label: "Longest answer", min: 1, max: 1000000, step: 1, hint: "in tokens" },
  { name: "seed", label: "Seed", min: 0, max: "18446744073709551615", step: 1, hint: "the same seed draws the same answer" },
  { name: "repetition_penalty", label: "Repetition penalty", min: 0.01, max: 2, step: 0.01, hint: "1 is off" },
  { name: "presence_penalty", label: "Presence penalty", min: -2, max: 2, step: 0.1, hint: "0 is off" },
  { name: "frequency_penalty", label: "Frequency penalty", min: -2, max: 2, step: 0.1, hint: "0 is off" },
];

/** What a new conversation starts with. An empty text leaves a field to the server. */
export const BLANK = { system: "", stop: "", lane: "", tools: "", more: "" };

/** A setting that cannot be read. Its message says so in plain words. */
export class Unreadable extends Error {}

/** The fields for a request. Throws Unreadable. */
export function requestFields(settings) {
  const made = {};
  for (const { name, label } of NUMBERS) {
    const text = settings[name] ?? "";
    if (text === "") continue;
    const value = Number(text);
    if (!Number.isFinite(value)) throw new Unreadable(`${label} must be a number.`);
    made[name] = name === "seed" ? exact(text, value) : value;
  }
  const stops = settings.stop.split("\n").filter(Boolean);
  if (stops.length) made.stop = stops;
  if (settings.lane) made.lane = settings.lane;
  if (settings.tools.trim()) made.tools = toolList(settings.tools);
  return { ...made, ...moreFields(settings.more) };
}

/** All digits of a seed, where the browser can send them. */
function exact(text, value) {
  return /^\d+$/.test(text) ? JSON.rawJSON?.(BigInt(text).toString()) ?? value : value;
}

export function toolList(text) {
  const tools = parsed(text, "Tools");
  if (!Array.isArray(tools)) throw new Unreadable("Tools must be a list, as in [{\"type\": \"function\", …}].");
  return tools;
}

export function moreFields(text) {
  if (!text.trim()) return {};
  const fields = parsed(text, "More fields");
  if (fields === null || typeof fields !== "object" || Array.isArray(fields)) {
    throw new Unreadable("More fields must be an object, as in {\"priority\": 1}.");
  }
  return fields;
}

function parsed(text, label) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Unreadable(`${label} is not JSON: ${error.message}`);
  }
}

/** How many settings differ from the server's own. */
export function changed(settings) {
  return Object.values(settings).filter((text) => String(text).trim() !== "").length;
}
