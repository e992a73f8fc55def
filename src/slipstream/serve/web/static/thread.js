// The messages of a conversation, and the field to write the next one.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { running, send, sendResults, stop } from "./chat.js";
import { current } from "./conversations.js";
import { count } from "./format.js";
import { Icon } from "./icons.js";
import { Message } from "./message.js";
import { context } from "./server.js";

const NEAR = 80; // pixels from the end that still count as being at the end
const TRIES = [
  "What is continuous batching, in three sentences?",
  "Write a Python function that merges two sorted lists.",
  "Give me a table of four sorting algorithms and their costs.",
];

export function Thread() {
  const { id, title, messages } = current.value;
  const busy = id in running.value;
  const box = useRef();
  const [away, setAway] = useState(false);
  const follow = useRef(true);
  const toEnd = () => { box.current.scrollTop = box.current.scrollHeight; };
  const scrolled = () => {
    const { scrollHeight, scrollTop, clientHeight } = box.current;
    follow.current = scrollHeight - scrollTop - clientHeight < NEAR;
    setAway(!follow.current);
  };
  useEffect(() => {
    follow.current = true;
    toEnd();
  }, [id, messages.length]);
  useLayoutEffect(() => { if (follow.current) toEnd(); });
  const open = openCalls(messages, busy);
  return html`<section class="thread" aria-label="Conversation">
    <div class="scroller" ref=${box} onScroll=${scrolled} tabindex="0" role="log" aria-label="Messages" aria-live="off">
      <div class="column">
        ${messages.length ? html`<h1 class="unseen">${title}</h1>` : html`<${Welcome} />`}
        ${messages.map((message, index) => html`<${Message} key=${message.key ?? index} id=${id} index=${index}
          message=${message} last=${index === messages.length - 1} busy=${busy} />`)}
        ${open.length > 0 && html`<${Results} key=${messages.length} id=${id} calls=${open} />`}
      </div>
    </div>
    ${away && html`<button type="button" class="to-end" onClick=${toEnd}><${Icon} name="down" /> Latest</button>`}
    <${Announcer} messages=${messages} />
    <${Composer} id=${id} busy=${busy} messages=${messages} />
  </section>`;
}

/** Says to a screen reader that an answer began or ended, not each of its words. */
function Announcer({ messages }) {
  const last = messages.at(-1);
  const said = last?.role !== "assistant" ? "" : { running: "Answering", done: last.content, stopped: "Stopped" }[last.state];
  return html`<div class="unseen" role="status">${said}</div>`;
}

function Welcome() {
  return html`<div class="welcome">
    <h1>What shall we look at?</h1>
    <p class="faint">Each answer says which lane it took, and why. Nothing leaves the machine that serves this page.</p>
    <div class="tries">${TRIES.map((text) => html`<button type="button" onClick=${() => send(text)}>${text}</button>`)}</div>
  </div>`;
}

/** The calls that the last answer made, while they wait for their results. */
function openCalls(messages, busy) {
  const last = messages.at(-1);
  return !busy && last?.role === "assistant" && last.state === "done" ? last.calls.filter(Boolean) : [];
}

function Results({ id, calls }) {
  const form = useRef();
  const submit = (event) => {
    event.preventDefault();
    sendResults(id, calls, [...form.current.querySelectorAll("textarea")].map((field) => field.value));
  };
  return html`<form class="results" ref=${form} onSubmit=${submit}>
    ${calls.map((call) => html`<label>Result of <code>${call.name}</code>
      <textarea rows="2" placeholder="What the tool gave"></textarea></label>`)}
    <button type="submit" class="strong">Send results</button>
  </form>`;
}

function Composer({ id, busy, messages }) {
  const field = useRef();
  const [empty, setEmpty] = useState(true);
  const grow = () => {
    field.current.style.height = "auto";
    field.current.style.height = `${field.current.scrollHeight}px`;
    setEmpty(!field.current.value.trim());
  };
  useEffect(() => {
    if (matchMedia("(hover: hover)").matches) field.current.focus(); // on a phone it would raise the keyboard
  }, [id]);
  const submit = (event) => {
    event.preventDefault();
    if (busy || !field.current.value.trim()) return;
    send(field.current.value);
    field.current.value = "";
    grow();
  };
  const keys = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  };
  return html`<form class="composer" onSubmit=${submit}>
    <div class="composer-box">
      <textarea id="composer-text" ref=${field} rows="1" aria-label="Message" dir="auto" placeholder="Write a message"
        onInput=${grow} onKeyDown=${keys}></textarea>
      ${busy
        ? html`<button type="button" class="round" aria-label="Stop" title="Stop (Esc)" onClick=${() => stop(id)}><${Icon} name="stop" /></button>`
        : html`<button type="submit" class="round strong" aria-label="Send" title="Send (Enter)" disabled=${empty}><${Icon} name="send" /></button>`}
    </div>
    <p class="hints"><span><kbd>Enter</kbd> sends, <kbd>Shift Enter</kbd> breaks the line, <kbd>Esc</kbd> stops</span>
      <${Used} messages=${messages} /></p>
  </form>`;
}

function Used({ messages }) {
  const usage = messages.findLast((one) => one.account?.usage)?.account.usage;
  if (!usage || !context.value) return null;
  return html`<span>${count(usage.total_tokens)} of ${count(context.value)} tokens of context</span>`;
}
