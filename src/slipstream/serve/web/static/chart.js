// A line chart of the last minutes, with the values under the pointer in its legend.
import { html, useEffect, useRef, useState } from "./html.js";
import { clock } from "./format.js";
import { systemDark, theme } from "./theme.js";
import uPlot from "./vendor/uplot.js";

const HEIGHT = 130;
const LEAST_SPAN = 60; // seconds
const FINE = 150; // seconds; a shorter span has seconds on its axis
const AXIS = 46; // pixels

/** `data` is columns, times first; `lines` are { label, ink } of the others. `show` writes a value
 * in words, `axis` at the side. */
export function Chart({ title, data, lines, show, axis = String }) {
  const box = useRef();
  const plot = useRef(null);
  const [at, setAt] = useState(null);
  useEffect(() => {
    plot.current = new uPlot(options(box.current, lines, setAt, axis), data, box.current);
    const fit = () => plot.current.setSize({ width: box.current.clientWidth, height: HEIGHT });
    const watching = new ResizeObserver(fit);
    watching.observe(box.current);
    return () => {
      watching.disconnect();
      plot.current.destroy();
    };
  }, []);
  useEffect(() => { plot.current.setData(data); }, [data]);
  useEffect(() => { plot.current.redraw(); }, [theme.value, systemDark.value]);
  const index = at ?? data[0].length - 1;
  const values = lines.map(({ label, ink }, line) => ({ label, ink, value: data[line + 1][index] }));
  const spoken = values.map(({ label, value }) => `${label} ${value == null ? "unknown" : show(value)}`).join(", ");
  const nothing = data.slice(1).every((column) => column.every((value) => value == null));
  return html`<section class="card">
    <div class="card-head"><h2>${title}</h2><span class="legend">${values.map(({ label, ink, value }) =>
      html`<span><i class="swatch ${ink}"></i>${label} <b>${value == null ? "–" : show(value)}</b></span>`)}</span></div>
    ${nothing && html`<p class="chart-empty faint">No numbers yet.</p>`}
    <div class="chart ${nothing ? "blank" : ""}" ref=${box} role="img" aria-label=${`${title} over the last five minutes; now: ${spoken}`}></div>
  </section>`;
}

function options(box, lines, setAt, short) {
  const ink = (name) => () => colour(box, name);
  const axis = { stroke: ink("ink-soft"), ticks: { show: false }, font: "11px system-ui, sans-serif" };
  return {
    width: box.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { size: 6 } },
    scales: { x: { range: span }, y: { range: (_, __, max) => [0, Math.max(1, max * 1.15)] } },
    axes: [
      { ...axis, grid: { show: false }, space: 70, size: 24, values: (plot, times) => times.map((t) => t < LEAST_SPAN * 1e6 ? "" : clock(t * 1000, plot.scales.x.max - plot.scales.x.min < FINE)) },
      { ...axis, grid: { stroke: ink("ink-line"), width: 1 }, size: AXIS, space: 36, values: (_, all) => all.map(short) },
    ],
    series: [{}, ...lines.map((line) => ({ stroke: ink(line.ink), width: 2, points: { show: false } }))],
    hooks: { setCursor: [(plot) => setAt(plot.cursor.idx ?? null)] },
  };
}

function span(_, first, last) {
  const end = last ?? Date.now() / 1000;
  return [Math.min(first ?? end, end - LEAST_SPAN), end];
}

/** What a class of colour comes to in the theme of the moment; a canvas knows no variables. */
function colour(box, name) {
  const probe = document.createElement("i");
  probe.className = name;
  box.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
