// The last requests that ended, each with a way to its trace.
import { html, useState } from "./html.js";
import { count, milliseconds, seconds } from "./format.js";
import { ENDINGS, Lane } from "./reasons.js";
import { TraceButton } from "./trace.js";
import { recent } from "./watching.js";

const FEW = 8;

export function Recent() {
  const [all, setAll] = useState(false);
  const traces = recent.value || [];
  const shown = all ? traces : traces.slice(0, FEW);
  const most = Math.max(1, ...shown.map((one) => one.duration_ms));
  return html`<section class="card across">
    <div class="card-head"><h2>Recent requests</h2>
      ${traces.length > FEW && html`<button type="button" class="quiet" aria-expanded=${all} onClick=${() => setAll(!all)}>${all ? "Fewer" : `All ${traces.length}`}</button>`}</div>
    ${!traces.length
      ? html`<p class="faint">${recent.value === false ? "This server does not list them." : "No request has ended yet. Each opens its trace from here."}</p>`
      : html`<div class="scroll" tabindex="0" role="region" aria-label="Recent requests"><table class="rows">
        <thead><tr><th>Request</th><th>Lane</th><th class="bars">Where its time went</th><th>Took</th><th>Prompt</th><th>Generated</th><th>End</th><th>Began</th></tr></thead>
        <tbody>${shown.map((one) => html`<${Line} key=${one.id + one.route} one=${one} most=${most} />`)}</tbody>
      </table></div>`}
  </section>`;
}

function Line({ one, most }) {
  const { queue, prefill, decode } = one.phases_ms;
  const parts = [["queued", queue], ["prefill", prefill], ["decode", decode]];
  const spoken = parts.map(([name, ms]) => `${name} ${milliseconds(ms)}`).join(", ");
  return html`<tr>
    <td><${TraceButton} id=${one.id}><code>${one.id.slice(0, 12)}</code></${TraceButton}></td>
    <td><${Lane} lane=${one.lane} reasons=${one.reasons} /></td>
    <td class="bars"><div class="phases" title=${spoken} role="img" aria-label=${spoken}>${parts.map(([name, ms]) =>
      ms > 0 && html`<i class="phase-${name}" style=${{ width: `${(100 * ms) / most}%` }}></i>`)}</div></td>
    <td>${milliseconds(one.duration_ms)}</td>
    <td>${count(one.prompt_tokens)}</td>
    <td>${count(one.generated)}</td>
    <td class=${one.error ? "wrong" : ""} title=${ENDINGS[one.error || one.finish] ?? ""}>${one.error || one.finish}</td>
    <td class="faint">${seconds(one.age_ms / 1000)} ago</td>
  </tr>`;
}
