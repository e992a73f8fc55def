// The server at a glance.
import { html } from "./html.js";
import { Chart } from "./chart.js";
import { bytes, count, milliseconds, percent, rate, seconds } from "./format.js";
import { Prefixes, PrefixTree } from "./prefixes.js";
import { ENDINGS, REASONS } from "./reasons.js";
import { Recent } from "./recent.js";
import { loads, rates, stats, trouble } from "./server.js";
import { Timeline } from "./timeline.js";
import { firstTokens, gaps, latency } from "./watching.js";

const MOST_SLOTS = 64;
const RANKS = [{ label: "p50", ink: "ink-a" }, { label: "p95", ink: "ink-b" }, { label: "p99", ink: "ink-c" }];

export function Dashboard() {
  const now = stats.value;
  if (!now) return html`<div class="dashboard"><h1 class="unseen">Dashboard</h1><p class="empty"><span class="pulse"></span> Waiting for the server's numbers…</p></div>`;
  const [, generated] = rates.value;
  const stale = trouble.value && !trouble.value.calm;
  return html`<div class="dashboard ${stale ? "stale" : ""}" tabindex="0" role="region" aria-label="Dashboard">
    <h1 class="unseen">Dashboard</h1>
    <div class="tiles">
      <${Tile} name="Generating" value=${`${rate(generated.at(-1) ?? 0)} tok/s`} more=${`${count(now.tokens.generated)} tokens so far`} />
      <${Percentiles} name="First token" told=${latency.value && latency.value.first_token_ms} what="requests" />
      <${Percentiles} name="Gap between tokens" told=${latency.value && latency.value.gap_ms} what="gaps" />
      <${Lanes} lanes=${now.lanes} />
      <${Tile} name="Queue" value=${`${now.queue.waiting} of ${now.queue.max}`} more=${`${count(now.queue.rejected)} refused`} />
      <${Tile} name="Lease" value=${now.lease.held_by ?? "free"} more=${`${now.lease.waiting} waiting; up ${seconds(now.uptime_s)}`} />
    </div>
    <div class="cards">
      <${Chart} title="Tokens a second" data=${rates.value} show=${rate}
        lines=${[{ label: "generated", ink: "ink-a" }, { label: "prompt", ink: "ink-b" }]} />
      <${Chart} title="Rows and queue" data=${loads.value} show=${count}
        lines=${[{ label: "rows", ink: "ink-a" }, { label: "waiting", ink: "ink-c" }]} />
      <${Chart} title="First token" data=${firstTokens.value} show=${milliseconds} axis=${scale} lines=${RANKS} />
      <${Chart} title="Gap between tokens" data=${gaps.value} show=${milliseconds} axis=${scale} lines=${RANKS} />
      <${Timeline} />
      <${Recent} />
      <${Memory} memory=${now.memory} />
      <${Prefixes} cache=${now.prefix_cache} />
      <${Counts} title="Placements" counts=${now.placements} words=${REASONS} none="Nothing was placed yet. Each request says here which lane it took, and why." />
      <${Counts} title="How answers ended" counts=${now.finish} words=${ENDINGS} none="Nothing ended yet." />
      ${now.spec.drafted > 0 && html`<${Drafts} spec=${now.spec} />`}
      <${PrefixTree} />
    </div>
  </div>`;
}

/** Short enough for the side of a chart. */
const scale = (ms) => (ms === 0 ? "0" : ms < 1000 ? milliseconds(ms) : `${Number((ms / 1000).toFixed(1))} s`);

function Percentiles({ name, told, what }) {
  const known = told?.count > 0;
  return html`<section class="tile"><h2>${name}</h2><b>${known ? milliseconds(told.p50) : "–"}</b>
    <span class="faint">${known
      ? `p95 ${milliseconds(told.p95)} · p99 ${milliseconds(told.p99)}`
      : told ? `no ${what} for a minute` : latency.value === false ? "not told by this server" : "…"}</span></section>`;
}

function Tile({ name, value, more }) {
  return html`<section class="tile"><h2>${name}</h2><b>${value}</b><span class="faint">${more}</span></section>`;
}

function Lanes({ lanes: { group, solo } }) {
  const slots = Math.min(Math.max(group.max, group.active), MOST_SLOTS);
  return html`<section class="tile"><h2>Group lane</h2>
    <b>${group.active} of ${group.max}</b>
    <span class="slots" aria-hidden="true">${Array.from({ length: slots }, (_, at) => html`<i class=${at < group.active ? "full" : ""}></i>`)}</span>
    <span class="faint">solo lane: ${solo.active || "nothing"} running</span>
  </section>`;
}

function Memory({ memory }) {
  const { weights, kv, prefix_ram: prefixes, active, budget, peak } = memory;
  const known = weights + kv + prefixes;
  const parts = [
    { name: "weights", size: weights, ink: "ink-a" },
    { name: "live rows", size: kv, ink: "ink-b" },
    { name: "prefix cache", size: prefixes, ink: "ink-c" },
    { name: "other", size: Math.max(0, active - known), ink: "ink-d" },
  ];
  const used = Math.max(known, active);
  const whole = Math.max(budget, used, 1);
  return html`<section class="card">
    <div class="card-head"><h2>Memory</h2><span class="faint">${bytes(used)}${budget > 0 && ` of ${bytes(budget)}`}; peak ${bytes(peak)}</span></div>
    <div class="stack" role="img" aria-label=${`Memory: ${parts.map((one) => `${one.name} ${bytes(one.size)}`).join(", ")}`}>
      ${parts.map(({ size, ink }) => html`<i class=${ink} style=${{ width: `${(100 * size) / whole}%` }}></i>`)}
    </div>
    <ul class="facts">${parts.map(({ name, size, ink }) => html`<li><i class="swatch ${ink}"></i>${name}<b>${bytes(size)}</b></li>`)}
      <li>rows may hold<b>${memory.kv_budget > 0 ? bytes(memory.kv_budget) : "any size"}</b></li></ul>
  </section>`;
}

function Counts({ title, counts, words, none }) {
  const all = Object.entries(counts).sort((a, b) => b[1] - a[1]);
  const most = Math.max(1, ...all.map(([, number]) => number));
  return html`<section class="card"><div class="card-head"><h2>${title}</h2></div>
    ${!all.length && html`<p class="faint">${none}</p>`}
    <ul class="counts">${all.map(([name, number]) => html`<li>
      <span>${name === "none" ? "group" : name} <span class="faint">${words[name] ?? ""}</span></span><b>${count(number)}</b>
      <i aria-hidden="true" style=${{ width: `${(100 * number) / most}%` }}></i></li>`)}</ul>
  </section>`;
}

function Drafts({ spec }) {
  return html`<section class="card"><div class="card-head"><h2>Speculation</h2></div>
    <ul class="facts"><li>tokens drafted<b>${count(spec.drafted)}</b></li>
      <li>accepted<b>${count(spec.accepted)}, ${percent(spec.accepted, spec.drafted)}</b></li></ul></section>`;
}
