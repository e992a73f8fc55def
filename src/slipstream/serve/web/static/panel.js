// The settings of the conversation on screen: system prompt, sampling, tools.
import { html, signal } from "./html.js";
import { current, updateSettings } from "./conversations.js";
import { BLANK, changed, moreFields, NUMBERS, toolList } from "./fields.js";
import { IconButton } from "./icons.js";

export const panelOpen = signal(false);

export function changedSettings() {
  return changed(current.value.settings);
}

export function Panel() {
  if (!panelOpen.value) return null;
  const { id, settings } = current.value;
  const set = (name) => ({ target }) => updateSettings(id, { [name]: target.value });
  const reset = () => {
    const none = Object.fromEntries(NUMBERS.map(({ name }) => [name, ""]));
    updateSettings(id, { ...BLANK, ...none });
  };
  return html`<aside class="panel" id="panel" aria-label="Settings" key=${id}>
    <div class="panel-head"><h2>Settings</h2>
      <${IconButton} name="close" label="Close settings" onClick=${() => { panelOpen.value = false; }} /></div>
    <p class="faint">For this conversation. An empty field leaves it to the server.</p>
    <label class="field">System prompt
      <textarea rows="4" value=${settings.system} onInput=${set("system")} placeholder="You are…"></textarea></label>
    <div class="numbers">
      ${NUMBERS.map((one) => html`<${Number} key=${one.name} one=${one} value=${settings[one.name] ?? ""} set=${set(one.name)} />`)}
    </div>
    <label class="field">Stop texts
      <textarea rows="2" value=${settings.stop} onInput=${set("stop")} aria-describedby="stop-hint"></textarea>
      <small id="stop-hint">one a line; the answer ends before any of them</small></label>
    <label class="field">Lane
      <select value=${settings.lane} onChange=${set("lane")}>
        <option value="">the server decides</option><option value="solo">solo</option>
      </select></label>
    <${Json} name="tools" label="Tools" hint="a JSON list of functions; you answer their calls by hand" read=${toolList} value=${settings.tools} set=${set("tools")} />
    <${Json} name="more" label="More fields" hint="a JSON object, merged into the request" read=${moreFields} value=${settings.more} set=${set("more")} />
    <button type="button" onClick=${reset}>Back to the server's own</button>
  </aside>`;
}

function Number({ one, value, set }) {
  const { name, label, hint, min, max, step } = one;
  return html`<label class="field">${label}
    <input type="number" inputmode="decimal" min=${min} max=${max} step=${step} placeholder="server's own"
      value=${value} onInput=${set} aria-describedby=${`${name}-hint`} />
    <small id=${`${name}-hint`}>${hint}</small></label>`;
}

function Json({ name, label, hint, read, value, set }) {
  const wrong = value.trim() ? problem(read, value) : "";
  return html`<label class="field">${label}
    <textarea rows="3" class="mono" spellcheck=${false} value=${value} onInput=${set}
      aria-describedby=${`${name}-hint`} aria-invalid=${wrong ? "true" : "false"}></textarea>
    <small id=${`${name}-hint`} class=${wrong ? "wrong" : ""}>${wrong || hint}</small></label>`;
}

function problem(read, text) {
  try {
    read(text);
    return "";
  } catch (error) {
    return error.message;
  }
}
