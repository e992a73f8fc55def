// One short line at the foot of the page, now and then with a way back.
import { html, signal } from "./html.js";

const SHOWN = 7000; // milliseconds

const shown = signal(null);
let timer = null;

/** `undo`, where given, is offered as a button. */
export function say(text, undo = null) {
  clearTimeout(timer);
  shown.value = { text, undo };
  timer = setTimeout(() => { shown.value = null; }, SHOWN);
}

export function Toast() {
  const toast = shown.value;
  const undo = () => {
    toast.undo();
    shown.value = null;
  };
  return html`<div class="toast-place" role="status">${toast && html`
    <div class="toast">${toast.text}
      ${toast.undo && html`<button type="button" class="quiet" onClick=${undo}>Undo</button>`}
    </div>`}
  </div>`;
}
