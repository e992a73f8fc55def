// What only the dashboard asks for: percentiles, the prefix tree, the last requests.
import { effect, signal } from "./html.js";
import { get, Refused } from "./api.js";
import { polled } from "./server.js";

const KEPT = 300; // seconds of samples
const RANKS = ["p50", "p95", "p99"];

// As the routes of these names answer; null until known, false where a server has them not.
export const latency = signal(null);
export const prefixes = signal(null);
export const recent = signal(null);
const columns = () => [[], [], [], []];
/** Times, then a column for each percentile, in milliseconds. */
export const firstTokens = signal(columns());
export const gaps = signal(columns());

polled.add(async () => {
  const now = latency.value = await asked("admin/latency");
  if (now) {
    firstTokens.value = grown(firstTokens.value, now.first_token_ms);
    gaps.value = grown(gaps.value, now.gap_ms);
  }
  prefixes.value = await asked("admin/prefixes");
  const told = await asked("admin/traces");
  recent.value = told && told.traces;
});

async function asked(path) {
  try {
    return await get(path);
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return false;
    throw error;
  }
}

function grown([times, ...others], summary) {
  const now = Date.now() / 1000;
  const first = times.findIndex((t) => now - t <= KEPT);
  const from = first < 0 ? times.length : first;
  return [
    [...times.slice(from), now],
    ...others.map((column, rank) => [...column.slice(from), summary[RANKS[rank]]]),
  ];
}
