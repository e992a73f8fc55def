// The list of conversations.
import { html, signal, useLayoutEffect, useRef, useState } from "./html.js";
import { running, stop } from "./chat.js";
import { currentId, listed, remove, rename, restore, show, startNew } from "./conversations.js";
import { exportAll, exportJson, exportMarkdown, importFile } from "./files.js";
import { when } from "./format.js";
import { Icon, IconButton } from "./icons.js";
import { say } from "./toast.js";

/** Whether the list lies over the page; only narrow screens hide it otherwise. */
export const sidebarOpen = signal(false);

export function newChat() {
  startNew();
  sidebarOpen.value = false;
  location.hash = "#chat";
  requestAnimationFrame(() => document.getElementById("composer-text")?.focus());
}

export function Sidebar() {
  const file = useRef();
  const picked = ({ target }) => {
    [...target.files].forEach(importFile);
    target.value = "";
  };
  const list = listed.value;
  return html`
    ${sidebarOpen.value && html`<div class="scrim" onClick=${() => { sidebarOpen.value = false; }}></div>`}
    <nav class="sidebar ${sidebarOpen.value ? "open" : ""}" id="sidebar" aria-label="Conversations">
      <button type="button" class="new-chat" onClick=${newChat}>
        <${Icon} name="plus" /> New chat <kbd>Ctrl K</kbd>
      </button>
      <ul class="chats">
        ${list.map((one) => html`<${Entry} key=${one.id} one=${one} />`)}
      </ul>
      ${!list.length && html`<p class="faint pad">Conversations stay in this browser.</p>`}
      <div class="sidebar-foot">
        <input ref=${file} type="file" accept=".json" multiple hidden aria-label="File to import" onChange=${picked} />
        <button type="button" class="quiet" onClick=${() => file.current.click()}>Import</button>
        <button type="button" class="quiet" disabled=${!list.length} onClick=${() => exportAll(list)}>Export all</button>
      </div>
    </nav>`;
}

function Entry({ one }) {
  const [naming, setNaming] = useState(false);
  const chosen = currentId.value === one.id;
  const open = () => {
    show(one.id);
    sidebarOpen.value = false;
  };
  const drop = () => {
    stop(one.id);
    const gone = remove(one.id);
    say(`“${gone.title}” is deleted.`, () => restore(gone));
  };
  if (naming) return html`<li><${NameForm} one=${one} close=${() => setNaming(false)} /></li>`;
  return html`<li class="chat-entry ${chosen ? "chosen" : ""}">
    <button type="button" class="chat-open" aria-current=${chosen ? "true" : null} onClick=${open}>
      <span class="chat-title">${one.title}</span>
      ${running.value[one.id]
        ? html`<span class="pulse" role="img" aria-label="answering"></span>`
        : html`<span class="chat-when">${when(one.updated)}</span>`}
    </button>
    ${chosen && html`<span class="chat-tools">
      <${IconButton} name="pen" label="Rename" onClick=${() => setNaming(true)} />
      <${IconButton} name="save" label="Export as Markdown" onClick=${() => exportMarkdown(one)} />
      <${IconButton} name="copy" label="Export as JSON" onClick=${() => exportJson(one)} />
      <${IconButton} name="trash" label="Delete" onClick=${drop} />
    </span>`}
  </li>`;
}

function NameForm({ one, close }) {
  const field = useRef();
  const over = useRef(false); // a field that is taken away loses its focus too
  useLayoutEffect(() => field.current.select(), []);
  const end = (target, keep) => {
    if (over.current) return;
    over.current = true;
    if (keep) rename(one.id, target.value);
    close();
  };
  const keys = (event) => {
    if (event.key === "Enter") end(event.target, true);
    if (event.key === "Escape") {
      event.stopPropagation();
      end(event.target, false);
    }
  };
  return html`<input ref=${field} class="chat-name" aria-label="Name of the conversation"
    defaultValue=${one.title} onKeyDown=${keys} onBlur=${({ target }) => end(target, true)} />`;
}
