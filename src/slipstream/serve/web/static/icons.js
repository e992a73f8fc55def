// Small drawings. Each is decoration: what it stands for is always said in a label.
import { html } from "./html.js";

const PATHS = {
  menu: "M4 7h16M4 12h16M4 17h16",
  plus: "M12 5v14M5 12h14",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  sliders: "M4 7h9m5 0h2M4 17h3m5 0h8M13 4.500v5M7 14.500v5",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 3v1.500M12 19.500V21M3 12h1.500M19.500 12H21M5.600 5.600l1.100 1.100M17.300 17.300l1.100 1.100M5.600 18.400l1.100-1.100M17.300 6.700l1.100-1.100",
  moon: "M20 14.500A8 8 0 0 1 9.500 4 8 8 0 1 0 20 14.500",
  auto: "M12 4a8 8 0 1 0 0 16zM12 4a8 8 0 0 1 0 16",
  trash: "M5 7h14M10 7V5h4v2M7 7l1 12h8l1-12",
  pen: "M5 19l1-4L16 5l3 3L9 18z",
  down: "M12 5v14M6 13l6 6 6-6",
  save: "M12 4v11M7 11l5 5 5-5M5 20h14",
  copy: "M9 9h10v11H9zM15 9V4H5v11h4",
  again: "M19 12a7 7 0 1 1-2.100-5M19 4v4h-4",
  close: "M6 6l12 12M18 6L6 18",
  logo: "M3 8h11a3 3 0 1 0-3-3M3 12.500h15a3 3 0 1 1-3 3M3 17h7",
};

export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;
}

/** A button that shows only a drawing. */
export function IconButton({ name, label, ...rest }) {
  return html`<button type="button" class="icon-button" aria-label=${label} title=${label} ...${rest}>
    <${Icon} name=${name} />
  </button>`;
}
