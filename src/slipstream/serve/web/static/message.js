// One message of a conversation.
import { html, useLayoutEffect, useMemo, useRef, useState } from "./html.js";
import { Account } from "./account.js";
import { edit, regenerate } from "./chat.js";
import { IconButton } from "./icons.js";
import { blocks, markup } from "./markdown.js";
import { say } from "./toast.js";

const COPIED = 1500; // milliseconds

export function Message({ id, index, message, last, busy }) {
  const [editing, setEditing] = useState(false);
  // The same vnode again for the same message: while one grows, the others cost nothing.
  return useMemo(() => {
    if (editing) {
      return html`<${Editor} id=${id} index=${index} message=${message} close=${() => setEditing(false)} />`;
    }
    const start = () => setEditing(true);
    if (message.role === "user") return html`<${Asked} message=${message} edit=${start} busy=${busy} />`;
    if (message.role === "tool") return html`<${Result} message=${message} />`;
    return html`<${Answer} id=${id} index=${index} message=${message} last=${last} edit=${start} busy=${busy} />`;
  }, [id, index, message, last, busy, editing]);
}

function Asked({ message, edit: start, busy }) {
  return html`<article class="message asked" aria-label="You">
    <div class="bubble" dir="auto">${message.content}</div>
    <div class="message-tools">
      <${IconButton} name="copy" label="Copy message" onClick=${() => copy(message.content)} />
      <${IconButton} name="pen" label="Edit message" disabled=${busy} onClick=${start} />
    </div>
  </article>`;
}

function Result({ message }) {
  return html`<article class="message" aria-label="Tool result">
    <details class="fold"><summary>Result of <code>${message.name}</code></summary>
      <pre tabindex="0">${message.content}</pre>
    </details>
  </article>`;
}

function Answer({ id, index, message, last, edit: start, busy }) {
  const { content, reasoning, calls = [], state, error } = message;
  const runs = state === "running";
  const empty = !content && !reasoning && !calls.length;
  return html`<article class="message answer" aria-label="Answer" aria-busy=${runs}>
    ${reasoning && html`<${Reasoning} text=${reasoning} thinking=${runs && !content} />`}
    ${content && html`<${Markdown} text=${content} />`}
    ${calls.filter(Boolean).map((call) => html`<${Call} key=${call.id} call=${call} />`)}
    ${runs && empty && html`<p class="waiting"><span class="pulse"></span> ${message.account.lane
      ? `On the ${message.account.lane} lane, reading the prompt…` : "Waiting for its turn…"}</p>`}
    ${!runs && empty && !error && html`<p class="faint">${state === "stopped" ? "Stopped before the first word." : "The model said nothing."}</p>`}
    ${message.finish === "length" && html`<p class="faint">Cut off: the longest answer or the context is used up.</p>`}
    ${error && html`<${Trouble} error=${error} again=${() => regenerate(id, index)} busy=${busy} />`}
    <div class="answer-foot">
      <${Account} account=${message.account} state=${state} />
      ${!runs && !error && html`<div class="message-tools">
        ${content && html`<${IconButton} name="copy" label="Copy answer" onClick=${() => copy(content)} />`}
        ${content && html`<${IconButton} name="pen" label="Edit answer" disabled=${busy} onClick=${start} />`}
        <${IconButton} name="again" label=${last ? "Answer again" : "Answer again from here"} disabled=${busy} onClick=${() => regenerate(id, index)} />
      </div>`}
    </div>
  </article>`;
}

function Reasoning({ text, thinking }) {
  return html`<details class="fold">
    <summary>${thinking ? html`<span class="pulse"></span> Thinking…` : "Thoughts"}</summary>
    <div class="thoughts" dir="auto">${text}</div>
  </details>`;
}

function Call({ call }) {
  return html`<details class="fold call"><summary>Calls <code>${call.name}</code></summary>
    <pre tabindex="0">${pretty(call.arguments)}</pre>
  </details>`;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text; // still growing, or not JSON at all
  }
}

function Trouble({ error, again, busy }) {
  return html`<div class="trouble" role="alert">
    <strong>${error.title}</strong> <span>${error.advice}</span>
    ${error.detail && html`<p class="faint">The server says: ${error.detail}</p>`}
    <button type="button" disabled=${busy} onClick=${again}>Try again</button>
  </div>`;
}

function Markdown({ text }) {
  const parts = blocks(text);
  return html`<div class="markdown" onClick=${copyCode}>
    ${parts.map((block, index) => html`<${Block} key=${index} block=${block} raw=${block.raw} />`)}
  </div>`;
}

function Block({ block, raw }) {
  const safe = useMemo(() => markup(block), [raw]);
  return html`<div dir="auto" dangerouslySetInnerHTML=${{ __html: safe }}></div>`;
}

function copyCode({ target }) {
  const button = target.closest("[data-copy]");
  if (!button) return;
  copy(button.closest(".code").querySelector("code").textContent);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, COPIED);
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied.");
  } catch {
    say("The browser does not let this page copy; it may need https or localhost.");
  }
}

function Editor({ id, index, message, close }) {
  const field = useRef();
  // Before the field is seen: later it would move the caret of somebody who already types.
  useLayoutEffect(() => {
    field.current.focus();
    field.current.setSelectionRange(message.content.length, message.content.length);
  }, []);
  const asks = message.role === "user";
  const save = (event) => {
    event.preventDefault();
    close();
    if (field.current.value.trim()) edit(id, index, field.current.value);
  };
  const keys = (event) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      close();
    }
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && asks) save(event);
  };
  return html`<form class="editor" onSubmit=${save}>
    <textarea ref=${field} aria-label=${asks ? "Edit your message" : "Edit the answer"} rows="4" dir="auto"
      defaultValue=${message.content} onKeyDown=${keys}></textarea>
    <div class="row">
      <button type="submit" class="strong">${asks ? "Send" : "Save"}</button>
      <button type="button" onClick=${close}>Cancel</button>
      ${asks && html`<span class="faint">What follows it is answered anew.</span>`}
    </div>
  </form>`;
}
