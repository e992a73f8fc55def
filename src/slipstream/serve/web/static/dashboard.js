// The server at a glance, from /stats.
import { html } from "./html.js";
import { Chart } from "./chart.js";
import { bytes, count, percent, rate, seconds } from "./format.js";
import { loads, rates, stats } from "./server.js";
import { Timeline } from "./timeline.js";

const MOST_SLOTS = 64;
const REASONS = { none: "group: nothing against it" };

export function Dashboard() {
  const now = stats.value;
  if (!now) return html`<div class="dashboard"><h1 class="unseen">Dashboard</h1><p class="faint pad">Waiting for the server's numbers…</p></div>`;
  const [, generated, computed] = rates.value;
  return html`<div class="dashboard" tabindex="0" role="region" aria-label="Dashboard">
    <h1 class="unseen">Dashboard</h1>
    <div class="tiles">
      <${Tile} name="Generating" value=${`${rate(generated.at(-1) ?? 0)} tok/s`} more=${`${count(now.tokens.generated)} tokens so far`} />
      <${Tile} name="Reading prompts" value=${`${rate(computed.at(-1) ?? 0)} tok/s`}
        more=${`${count(now.tokens.prompt)} tokens so far, ${count(now.tokens.cached)} cached`} />
      <${Lanes} lanes=${now.lanes} />
      <${Tile} name="Queue" value=${`${now.queue.waiting} of ${now.queue.max}`} more=${`${count(now.queue.rejected)} refused`} />
      <${Tile} name="Lease" value=${now.lease.held_by ?? "free"} more=${`${now.lease.waiting} waiting`} />
      <${Tile} name="Up" value=${seconds(now.uptime_s)} more=${`${count(now.turns)} turns`} />
    </div>
    <div class="cards">
      <${Chart} title="Tokens a second" data=${rates.value} show=${rate}
        lines=${[{ label: "generated", ink: "ink-a" }, { label: "prompt", ink: "ink-b" }]} />
      <${Chart} title="Rows and queue" data=${loads.value} show=${count}
        lines=${[{ label: "rows", ink: "ink-a" }, { label: "waiting", ink: "ink-c" }]} />
      <${Memory} memory=${now.memory} />
      <${Prefixes} cache=${now.prefix_cache} />
      <${Counts} title="Placements" counts=${now.placements} names=${REASONS} none="Nothing was placed yet." />
      <${Counts} title="How answers ended" counts=${now.finish} names=${{}} none="Nothing ended yet." />
      ${now.spec.drafted > 0 && html`<${Drafts} spec=${now.spec} />`}
      <${Timeline} />
    </div>
  </div>`;
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

function Prefixes({ cache }) {
  const asked = cache.hits + cache.misses;
  return html`<section class="card">
    <div class="card-head"><h2>Prefix cache</h2><span class="faint">${asked > 0 && `${percent(cache.hits, asked)} of ${count(asked)} prompts found something`}</span></div>
    <div class="stack" role="img" aria-label=${`${count(cache.hits)} hits, ${count(cache.misses)} misses`}>
      <i class="ink-a" style=${{ width: `${asked ? (100 * cache.hits) / asked : 0}%` }}></i></div>
    <ul class="facts">
      <li>hits<b>${count(cache.hits)}</b></li><li>misses<b>${count(cache.misses)}</b></li>
      <li>tokens not computed again<b>${count(cache.hit_tokens)}</b></li>
      <li>entries<b>${count(cache.entries)}</b></li><li>in memory<b>${bytes(cache.bytes)}</b></li>
      <li>on disk<b>${bytes(cache.ssd_bytes)}, ${count(cache.ssd_hits)} hits</b></li>
    </ul>
  </section>`;
}

function Counts({ title, counts, names, none }) {
  const all = Object.entries(counts).sort((a, b) => b[1] - a[1]);
  const most = Math.max(1, ...all.map(([, number]) => number));
  return html`<section class="card"><div class="card-head"><h2>${title}</h2></div>
    ${!all.length && html`<p class="faint">${none}</p>`}
    <ul class="counts">${all.map(([name, number]) => html`<li>
      <span>${names[name] ?? name}</span><b>${count(number)}</b>
      <i aria-hidden="true" style=${{ width: `${(100 * number) / most}%` }}></i></li>`)}</ul>
  </section>`;
}

function Drafts({ spec }) {
  return html`<section class="card"><div class="card-head"><h2>Speculation</h2></div>
    <ul class="facts"><li>tokens drafted<b>${count(spec.drafted)}</b></li>
      <li>accepted<b>${count(spec.accepted)}, ${percent(spec.accepted, spec.drafted)}</b></li></ul></section>`;
}
