// The page: its bar, the view that is chosen, and the keys that work everywhere.
import { html, render } from "./html.js";
import { stop } from "./chat.js";
import { current } from "./conversations.js";
import { Dashboard } from "./dashboard.js";
import { IconButton, Icon } from "./icons.js";
import { KeyForm } from "./keyform.js";
import { changedSettings, Panel, panelOpen } from "./panel.js";
import { choose, model, models, route, stats, trouble, watch } from "./server.js";
import { newChat, Sidebar, sidebarOpen } from "./sidebar.js";
import { storageFull } from "./storage.js";
import { nextTheme, theme } from "./theme.js";
import { Thread } from "./thread.js";
import { Toast } from "./toast.js";
import { TraceDialog } from "./trace.js";

const THEMES = { auto: "auto", light: "sun", dark: "moon" };

function Page() {
  const chat = route.value === "chat";
  return html`
    <${Bar} chat=${chat} />
    <${Notices} />
    ${chat
      ? html`<div class="chat"><${Sidebar} /><main class="middle"><${Thread} /></main><${Panel} /></div>`
      : html`<main class="middle"><${Dashboard} /></main>`}
    <${TraceDialog} /><${KeyForm} /><${Toast} />`;
}

function Bar({ chat }) {
  const changes = changedSettings();
  return html`<header class="bar">
    ${chat && html`<span class="narrow"><${IconButton} name="menu" label="Conversations" aria-expanded=${sidebarOpen.value}
      aria-controls="sidebar" onClick=${() => { sidebarOpen.value = !sidebarOpen.value; }} /></span>`}
    <span class="brand"><${Icon} name="logo" /><span class="wide">Slipstream</span></span>
    <nav class="tabs" aria-label="Views">
      <a href="#chat" aria-current=${chat ? "page" : null}>Chat</a>
      <a href="#dashboard" aria-current=${chat ? null : "page"}>Dashboard</a>
    </nav>
    <span class="grow"></span>
    <${Model} />
    ${chat && html`<span class="badged"><${IconButton} name="sliders" label=${changes ? `Settings, ${changes} set` : "Settings"} aria-expanded=${panelOpen.value}
      onClick=${() => { panelOpen.value = !panelOpen.value; }} />
      ${changes > 0 && html`<span class="badge" aria-hidden="true">${changes}</span>`}</span>`}
    <${IconButton} name=${THEMES[theme.value]} label=${`Theme: ${theme.value}`} onClick=${nextTheme} />
  </header>`;
}

function Model() {
  const state = trouble.value?.calm ? "" : trouble.value ? "bad" : models.value.length ? "good" : "";
  const name = stats.value?.model ?? "";
  return html`<span class="model">
    <span class="dot ${state}"></span>
    ${models.value.length > 1
      ? html`<select aria-label="Model" value=${model.value} onChange=${({ target }) => choose(target.value)}>
          ${models.value.map((one) => html`<option value=${one.id}>${one.id}</option>`)}
        </select>`
      : html`<span class="model-name" title=${name}>${name.split("/").at(-1) || "…"}</span>`}
  </span>`;
}

function Notices() {
  const shown = [];
  if (trouble.value) shown.push(trouble.value);
  if (storageFull.value) {
    shown.push({ title: "The browser's storage is full.", advice: "Export and delete conversations; new words are not kept." });
  }
  return html`<div role="status">${shown.map(({ title, advice, detail, calm }) => html`
    <p class="notice ${calm ? "calm" : ""}">${calm && html`<span class="pulse"></span>`} <strong>${title}</strong> ${advice} ${detail && html`<span class="faint">${detail}</span>`}</p>`)}
  </div>`;
}

addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    newChat();
  }
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
    if (sidebarOpen.value) sidebarOpen.value = false;
    else stop(current.value.id);
  }
});

const place = document.getElementById("page");
place.textContent = "";
render(html`<${Page} />`, place);
watch();
