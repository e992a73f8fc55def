// The prefix cache: what it saved, and the heaviest branches of its tree.
import { html, useState } from "./html.js";
import { bytes, count, percent } from "./format.js";
import { prefixes } from "./watching.js";

const FEW = 6;
const DEEPEST = 6; // levels that are indented

export function Prefixes({ cache }) {
  const asked = cache.hits + cache.misses;
  return html`<section class="card">
    <div class="card-head"><h2>Prefix cache</h2><span class="faint">${asked > 0 && `${percent(cache.hits, asked)} of ${count(asked)} prompts found something`}</span></div>
    <div class="stack" role="img" aria-label=${`${count(cache.hits)} hits, ${count(cache.misses)} misses`}>
      <i class="ink-a" style=${{ width: `${asked ? (100 * cache.hits) / asked : 0}%` }}></i></div>
    <ul class="facts">
      <li>hits<b>${count(cache.hits)}</b></li><li>misses<b>${count(cache.misses)}</b></li>
      <li>tokens not computed again<b>${count(cache.hit_tokens)}</b></li>
      <li>entries<b>${count(cache.entries)}</b></li><li>in memory<b>${bytes(cache.bytes)}</b></li>
      <li>on disk<b>${bytes(cache.ssd_bytes)}, ${count(cache.ssd_hits)} hits</b></li>
    </ul>
  </section>`;
}

export function PrefixTree() {
  const [all, setAll] = useState(false);
  const segments = inOrder((prefixes.value || {}).segments ?? []);
  const shown = all ? segments : segments.slice(0, FEW);
  const end = Math.max(1, ...segments.map((one) => one.start + one.tokens));
  const most = Math.max(1, ...segments.map((one) => one.hits));
  const left = ((prefixes.value || {}).entries ?? 0) - segments.length;
  return html`<section class="card across">
    <div class="card-head"><h2>Prefix tree</h2>
      ${segments.length > FEW && html`<button type="button" class="quiet" aria-expanded=${all} onClick=${() => setAll(!all)}>${all ? "Fewer" : `The heaviest ${segments.length}`}</button>`}</div>
    ${!segments.length
      ? html`<p class="faint">Nothing is kept. What prompts have computed is kept here, for those that begin alike.</p>`
      : html`<div class="scroll" tabindex="0" role="region" aria-label="Prefix tree"><table class="tree">
        <thead><tr><th>Tokens</th><th class="track"><span class="ticks"><span>0</span><span>${count(end)} tokens</span></span></th><th>Size</th><th>Hits</th></tr></thead>
        <tbody>${shown.map((one) => html`<tr>
          <td><span class="depth-${Math.min(one.depth, DEEPEST)}">${count(one.tokens)}</span></td>
          <td class="track"><i class="span ink-a" style=${{ left: `${(100 * one.start) / end}%`, width: `max(2px, ${(100 * one.tokens) / end}%)`, opacity: 0.3 + (0.7 * one.hits) / most }}></i></td>
          <td>${bytes(one.bytes)}</td><td>${count(one.hits)}</td></tr>`)}</tbody></table></div>`}
    ${segments.length > 0 && html`<p class="faint">Each bar is a stretch of tokens that prompts share; what goes on from it begins where it ends. Stronger colour, more hits.
      ${left > 0 && ` ${count(left)} lighter ones are not drawn.`}</p>`}
  </section>`;
}

/** Depth first, the heaviest branch first, each with its depth. */
function inOrder(segments) {
  const below = new Map();
  segments.forEach((one, index) => {
    below.set(one.parent, [...(below.get(one.parent) ?? []), index]);
  });
  const walk = (parent, depth) => (below.get(parent) ?? []).flatMap((index) =>
    [{ ...segments[index], depth }, ...walk(index, depth + 1)]);
  return walk(-1, 0);
}
