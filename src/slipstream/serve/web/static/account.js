// What the server said about an answer: its lane and why, times, tokens, the cache.
import { html } from "./html.js";
import { count, milliseconds, rate } from "./format.js";
import { REASONS } from "./reasons.js";
import { TraceButton } from "./trace.js";

/** Tokens a second while decoding, or null where too little was drawn to say. */
export function speed({ usage, decode_ms: ms }) {
  return usage?.completion_tokens > 1 && ms > 0 ? (1000 * usage.completion_tokens) / ms : null;
}

export function Account({ account, state }) {
  if (!account?.lane) return null;
  const { usage } = account;
  const tokens = speed(account);
  const cached = usage?.prompt_tokens_details?.cached_tokens ?? account.cached_tokens;
  const brief = [
    tokens && `${rate(tokens)} tok/s`,
    usage && `${count(usage.completion_tokens)} tokens`,
    account.queue_ms >= 100 && `waited ${milliseconds(account.queue_ms)}`,
    cached > 0 && `${count(cached)} cached`,
    state === "stopped" && "stopped",
  ].filter(Boolean);
  return html`<details class="account">
    <summary>
      <span class="lane ${account.lane}">${account.lane}</span>
      ${account.reasons.map((one) => html`<span class="reason" title=${REASONS[one] ?? ""}>${one}</span>`)}
      <span>${brief.join(" · ")}</span>
    </summary>
    <dl>${facts(account, cached).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
  </details>`;
}

function facts(account, cached) {
  const { usage, spec } = account;
  const rows = [
    ["Lane", account.lane],
    ["Reasons", account.reasons.join(", ") || "none: it shares every step"],
    ["Request", html`<${TraceButton} id=${account.requestId}>${account.requestId}</${TraceButton}>`],
  ];
  if (!usage) return rows;
  return [
    ...rows.slice(0, 2),
    ["Queue", milliseconds(account.queue_ms)],
    ["Prefill", milliseconds(account.prefill_ms)],
    ["Decode", milliseconds(account.decode_ms)],
    ["Prompt tokens", `${count(usage.prompt_tokens)}, ${count(cached)} of them cached`],
    ["Answer tokens", count(usage.completion_tokens)],
    ["Rows at once", `${account.rows_peak} at most`],
    ["Seed", String(account.seed)],
    ...(spec ? [["Drafts", `${count(spec.accepted)} of ${count(spec.drafted)} accepted`]] : []),
    ...(account.ignored?.length ? [["Changed nothing", account.ignored.join(", ")]] : []),
    ["Model", account.model],
    ...rows.slice(2),
  ];
}
