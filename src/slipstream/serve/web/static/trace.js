// The way of one request, drawn as a waterfall: its hops, and what happened on the way.
import { html, signal, useEffect, useRef, useState } from "./html.js";
import { get, Refused } from "./api.js";
import { explain } from "./errors.js";
import { count, milliseconds } from "./format.js";
import { IconButton } from "./icons.js";
import { ENDINGS, Lane } from "./reasons.js";
import { say } from "./toast.js";

const AGAIN = 1000; // milliseconds between two looks at a request that runs
const MOST = 40; // hops that are drawn
const HOPS = {
  parse: "the body is read and checked",
  prepare: "template and tokens",
  place: "lane and queue are decided",
  queue: "waits for a place",
  prefill: "the prompt is computed",
  decode: "tokens are drawn",
  text: "tokens become text",
  render: "text is sent",
  now: "where it is",
};
const MOMENTS = {
  join: ({ lane }) => `got its place on the ${lane} lane`,
  cache: ({ outcome, cached_tokens: tokens }) => (outcome === "hit" ? `the prefix cache had ${count(tokens)} tokens` : "the prefix cache had nothing of it"),
  first_token: () => "the first token was read",
  park: () => "rested for exclusive work",
  leave: ({ rows_peak: rows }) => `the last token was read; ${rows > 1 ? `up to ${count(rows)} rows shared its steps` : "its steps were its own"}`,
};
const INKS = { queue: "phase-queued", prefill: "phase-prefill", decode: "phase-decode", text: "phase-loop", render: "phase-loop" };
const WORDS = {
  "gen_ai.request.model": "Model",
  "gen_ai.request.temperature": "Temperature",
  "gen_ai.request.top_p": "Top-p",
  "gen_ai.request.top_k": "Top-k",
  "gen_ai.request.seed": "Seed",
  "gen_ai.request.max_tokens": "Longest answer",
  "gen_ai.request.choice.count": "Choices",
  "gen_ai.usage.input_tokens": "Prompt tokens",
  "slipstream.cached_tokens": "Cached tokens",
  "gen_ai.usage.output_tokens": "Answer tokens",
  "slipstream.rows_peak": "Rows at once",
  "slipstream.method": "Method",
  "http.route": "Route",
};

const opened = signal(null); // the request's id

export function openTrace(id) {
  opened.value = id;
}

export function TraceButton({ id, children }) {
  return html`<button type="button" class="trace-link" title=${`Trace of ${id}`} onClick=${() => openTrace(id)}>${children}</button>`;
}

export function TraceDialog() {
  const id = opened.value;
  return id && html`<${Opened} key=${id} id=${id} />`;
}

function Opened({ id }) {
  const dialog = useRef();
  const [trace, setTrace] = useState(null);
  const [trouble, setTrouble] = useState("");
  useEffect(() => {
    let over = false;
    let timer = null;
    const look = async () => {
      try {
        const found = await get(`admin/traces/${id.split("/").map(encodeURIComponent).join("/")}`);
        if (over) return;
        setTrace(found);
        if (found.state === "running") timer = setTimeout(look, AGAIN);
      } catch (error) {
        if (!over) setTrouble(told(error));
      }
    };
    dialog.current.showModal();
    look();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, []);
  const close = () => { opened.value = null; };
  const outside = ({ target }) => { if (target === dialog.current) dialog.current.close(); };
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(JSON.stringify(trace, null, 2));
      say("Copied as JSON.");
    } catch {
      say("The browser does not let this page copy; it may need https or localhost.");
    }
  };
  return html`<dialog ref=${dialog} class="trace" aria-labelledby="trace-title" onClose=${close} onClick=${outside}>
    <div class="trace-body">
      <div class="trace-head"><h2 id="trace-title">Trace</h2><code>${id}</code><span class="grow"></span>
        ${trace && html`<${IconButton} name="copy" label="Copy as JSON" onClick=${copy} />`}
        <${IconButton} name="close" label="Close" onClick=${() => dialog.current.close()} /></div>
      ${trouble && html`<p class="faint" role="alert">${trouble}</p>`}
      ${!trace && !trouble && html`<p class="faint">Asking the server…</p>`}
      ${trace && html`<${Summary} trace=${trace} /><${Waterfall} trace=${trace} /><${Facts} told=${trace.attributes} />`}
    </div>
  </dialog>`;
}

function told(error) {
  if (error instanceof Refused && error.status === 404) {
    return "The server keeps no trace of this request: it was refused, or many others came since. "
      + "Start the server with --trace FILE to keep them all.";
  }
  return explain(error).title;
}

function Summary({ trace }) {
  const { attributes, state, finish, error } = trace;
  const end = state === "running" ? "still running" : `ended: ${error || finish}`;
  return html`<p class="trace-line"><${Lane} lane=${attributes["slipstream.lane"]} reasons=${attributes["slipstream.reasons"]} />
    <b>${milliseconds(trace.duration_ms)}</b>
    <span class=${error ? "wrong" : "faint"} title=${ENDINGS[error || finish] ?? ""}>${end}</span></p>`;
}

function Waterfall({ trace }) {
  const whole = Math.max(trace.duration_ms, 0.001);
  const hops = trace.hops.slice(0, MOST);
  const left = trace.hops.length - hops.length;
  const last = Math.max(0, ...trace.hops.map((hop) => hop.start_ms + hop.duration_ms));
  const running = trace.state === "running" ? [{ name: "now", start_ms: last, duration_ms: whole - last }] : [];
  const at = (ms) => `${(100 * Math.min(Math.max(ms, 0), whole)) / whole}%`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Waterfall"><table class="waterfall">
    <thead><tr><th>Hop</th><th class="track"><span class="ticks"><span>0</span><span>${milliseconds(whole / 2)}</span><span>${milliseconds(whole)}</span></span></th><th>Time</th></tr></thead>
    <tbody>
      ${[...hops, ...running].map((hop) => html`<tr>
        <td>${hop.name} <span class="faint wide">${HOPS[hop.name]}</span></td>
        <td class="track"><i class="span ${INKS[hop.name] ?? "phase-host"}" style=${{ left: at(hop.start_ms), width: `max(2px, ${at(hop.duration_ms)})` }}></i></td>
        <td>${milliseconds(hop.duration_ms)}</td></tr>`)}
      ${trace.moments.length > 0 && html`<tr class="moments"><td>events</td>
        <td class="track">${trace.moments.map((one) => html`<i class="moment ${one.name}" style=${{ left: at(one.at_ms) }} title=${one.name}></i>`)}</td><td></td></tr>`}
    </tbody></table></div>
    ${left > 0 && html`<p class="faint">${count(left)} more hops of other choices are in the JSON.</p>`}
    <ul class="happened">${trace.moments.slice(0, MOST).map((one) => html`<li><i class="moment ${one.name}" aria-hidden="true"></i><span>${milliseconds(one.at_ms)}</span>
      <b>${one.name}</b><span class="faint">${detail(one)}</span></li>`)}</ul>`;
}

function detail({ name, attributes }) {
  const words = MOMENTS[name]?.(attributes);
  return words ?? Object.entries(attributes).map(([word, value]) => `${word} ${value}`).join(", ");
}

function Facts({ told: attributes }) {
  const known = Object.entries(WORDS).filter(([name]) => attributes[name] !== undefined && attributes[name] !== "");
  return html`<dl class="trace-facts">${known.map(([name, word]) => html`<div><dt>${word}</dt><dd>${String(attributes[name])}</dd></div>`)}</dl>`;
}
