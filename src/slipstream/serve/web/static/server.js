// What the server is and how it does: its models, and /stats as often as somebody looks.
import { computed, effect, signal } from "./html.js";
import { call, get, key, keyAsked, Refused } from "./api.js";
import { explain, stillLoading } from "./errors.js";
import { read, write } from "./storage.js";
import { say } from "./toast.js";

const KEPT = 300; // seconds of samples
const SMOOTH = 2.5; // seconds that a rate looks back, so that turns do not make it jump
const PACE = { dashboard: 1000, chat: 5000, hidden: 30000 }; // milliseconds between two polls
const SLOWEST = 15000;
const ROWS_AGAIN = 30; // polls until /admin/rows is asked for once more
const MODEL = "slipstream.model";

export const route = signal(routed());
export const models = signal([]);
export const chosen = signal(read(MODEL, ""));
export const model = computed(() =>
  models.value.some((one) => one.id === chosen.value) ? chosen.value : models.value[0]?.id);
export const context = computed(() =>
  models.value.find((one) => one.id === model.value)?.max_model_len ?? 0);
export const stats = signal(null);
export const trouble = signal(null); // as errors.explain has it
export const samples = signal([]); // { t, generated, computed, rows, waiting }
export const polled = new Set(); // what else is asked for while the dashboard is on screen
export const rows = signal(null); // null until known, false where the server has no such list

export function choose(id) {
  chosen.value = id;
  write(MODEL, id);
}

function routed() {
  return location.hash === "#dashboard" ? "dashboard" : "chat";
}

addEventListener("hashchange", () => { route.value = routed(); });

let wake = () => {};
const rest = (ms) => new Promise((done) => {
  const timer = setTimeout(done, ms);
  wake = () => { clearTimeout(timer); done(); };
});

document.addEventListener("visibilitychange", () => wake());
effect(() => { route.value; key.value; wake(); });

/** Never returns. */
export async function watch() {
  for (let turn = 0, failures = 0; ; turn += 1) {
    try {
      if (!keyAsked.value) await poll(turn);
      failures = 0;
      trouble.value = null;
    } catch (error) {
      failures += 1;
      trouble.value = stillLoading(error) ?? explain(error);
    }
    const pace = PACE[document.hidden ? "hidden" : route.value];
    await rest(failures ? Math.min(1000 * 2 ** (failures - 1), SLOWEST) : pace);
  }
}

async function poll(turn) {
  take(await get("stats"));
  if (!models.value.length) models.value = (await get("v1/models")).data;
  const again = rows.value !== false || turn % ROWS_AGAIN === 0;
  if (route.value !== "dashboard") return;
  if (again) rows.value = await liveRows();
  await Promise.all([...polled].map((ask) => ask()));
}

async function liveRows() {
  try {
    return { t: Date.now(), rows: (await get("admin/rows")).rows };
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return false;
    throw error;
  }
}

export async function endRequest(id) {
  try {
    await call(`admin/rows/${encodeURIComponent(id)}`, { method: "DELETE" });
  } catch (error) {
    say(error.status === 404 ? "It has ended already." : explain(error).title);
  }
  wake();
}

function take(now) {
  const sample = {
    t: Date.now() / 1000,
    generated: now.tokens.generated,
    computed: now.tokens.prompt - now.tokens.cached,
    rows: now.lanes.group.active + now.lanes.solo.active,
    waiting: now.queue.waiting,
  };
  const last = samples.value.at(-1);
  const restarted = stats.value && now.uptime_s < stats.value.uptime_s;
  const kept = restarted ? [] : samples.value.filter((one) => sample.t - one.t <= KEPT);
  stats.value = now;
  if (!last || sample.t > last.t) samples.value = [...kept, sample];
}

/** Tokens a second over the last few seconds, as columns: times, generated, computed. */
export const rates = computed(() => {
  const columns = [[], [], []];
  samples.value.slice(1).forEach((one, index) => {
    const before = samples.value.slice(0, index + 1).findLast((old) => one.t - old.t >= SMOOTH)
      ?? samples.value[0];
    const passed = one.t - before.t;
    columns[0].push(one.t);
    columns[1].push((one.generated - before.generated) / passed);
    columns[2].push((one.computed - before.computed) / passed);
  });
  return columns;
});

/** Rows and waiting requests, as columns. */
export const loads = computed(() => [
  samples.value.map((one) => one.t),
  samples.value.map((one) => one.rows),
  samples.value.map((one) => one.waiting),
]);
