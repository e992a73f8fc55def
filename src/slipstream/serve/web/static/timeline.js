// The rows that are live now, each with the phases that it went through while this page looked.
import { html, effect, signal } from "./html.js";
import { count, milliseconds } from "./format.js";
import { IconButton } from "./icons.js";
import { Lane } from "./reasons.js";
import { endRequest, rows } from "./server.js";
import { TraceButton } from "./trace.js";

const SPAN = 60000; // milliseconds
const GONE = 20000; // how long a row that ended is still shown
const SHOWN = 24;

/** key -> { row, phases: [{ state, from, to }], seen } */
const seen = signal({});

effect(() => {
  if (!rows.value) return;
  const { t, rows: live } = rows.value;
  const before = seen.peek();
  const next = {};
  for (const [key, one] of Object.entries(before)) if (t - one.seen < GONE) next[key] = one;
  for (const row of live) next[keyOf(row)] = grown(before[keyOf(row)], row, t);
  seen.value = next;
});

const keyOf = (row) => `${row.id}/${row.choice}`;

function grown(known, row, t) {
  const last = known?.phases.at(-1);
  const phases = last?.state === row.state
    ? [...known.phases.slice(0, -1), { ...last, to: t }]
    : [...(known?.phases ?? []), { state: row.state, from: last?.to ?? t - row.age_ms, to: t }];
  return { row, phases, seen: t };
}

export function Timeline() {
  return html`<section class="card across">
    <div class="card-head"><h2>Live rows</h2><span class="legend">
      ${["queued", "prefill", "decode", "parked"].map((state) => html`<span><i class="swatch phase-${state}"></i>${state}</span>`)}
    </span></div>
    ${rows.value === false
      ? html`<p class="faint">This server does not list its rows: it has no <code>/admin/rows</code>. The numbers above are still live.</p>`
      : html`<${Table} />`}
  </section>`;
}

function Table() {
  const now = rows.value?.t ?? Date.now();
  const all = Object.values(seen.value).sort((a, b) => a.phases[0].from - b.phases[0].from);
  if (!all.length) return html`<p class="faint">No row runs. Ask something, here or from a client.</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Live rows"><table class="rows">
    <thead><tr><th>Request</th><th>Lane</th><th>State</th><th class="bars">Last minute</th><th>Prompt</th><th>Generated</th><th>Age</th><th><span class="unseen">Ends it</span></th></tr></thead>
    <tbody>${all.slice(-SHOWN).map((one) => html`<${Line} key=${keyOf(one.row)} one=${one} now=${now} />`)}</tbody>
  </table></div>`;
}

function Line({ one, now }) {
  const { row, phases } = one;
  const over = one.seen < now;
  const done = row.computed >= row.prompt_tokens;
  const prompt = done ? count(row.prompt_tokens) : `${count(row.computed)} of ${count(row.prompt_tokens)}`;
  return html`<tr class=${over ? "over" : ""}>
    <td><${TraceButton} id=${row.id}><code>${row.id.slice(0, 12)}${row.choice ? `/${row.choice}` : ""}</code></${TraceButton}></td>
    <td><${Lane} lane=${row.lane} reasons=${row.reasons} /></td>
    <td>${over ? "ended" : row.state}</td>
    <td class="bars"><svg viewBox="0 0 600 10" preserveAspectRatio="none" aria-hidden="true">
      ${phases.map(({ state, from, to }) => {
        const x = Math.max(0, 600 - ((now - from) * 600) / SPAN);
        const end = Math.max(0, 600 - ((now - to) * 600) / SPAN);
        return html`<rect class="phase-${state}" x=${x} y="0" height="10" width=${Math.max(end - x, end > 0 ? 2 : 0)} />`;
      })}</svg></td>
    <td>${prompt}${row.cached_tokens > 0 && html` <span class="faint">${count(row.cached_tokens)} cached</span>`}</td>
    <td>${count(row.generated)}</td>
    <td>${milliseconds(row.age_ms)}</td>
    <td>${!over && html`<${IconButton} name="close" label=${`End ${row.id}`} onClick=${() => endRequest(row.id)} />`}</td>
  </tr>`;
}
