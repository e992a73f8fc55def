// Asks for the server's API key, once for each tab.
import { html, useEffect, useRef } from "./html.js";
import { giveKey, keyAsked } from "./api.js";

export function KeyForm() {
  const dialog = useRef();
  const asked = keyAsked.value;
  useEffect(() => { if (asked && !dialog.current.open) dialog.current.showModal(); }, [asked]);
  if (!asked) return null;
  const submit = (event) => {
    event.preventDefault();
    const value = new FormData(event.target).get("key").trim();
    if (value) giveKey(value);
  };
  return html`<dialog ref=${dialog} class="key-form" aria-labelledby="key-title" onCancel=${(event) => event.preventDefault()}>
    <form onSubmit=${submit}>
      <h2 id="key-title">This server needs a key</h2>
      ${asked === "wrong"
        ? html`<p class="wrong" role="alert">The server does not take this key. Look for a missing letter.</p>`
        : html`<p>It was started with --api-key or --api-key-file. The key is kept until this tab closes.</p>`}
      <label class="field">API key <input type="password" name="key" autocomplete="off" required autofocus /></label>
      <button type="submit" class="strong">Go on</button>
    </form>
  </dialog>`;
}
