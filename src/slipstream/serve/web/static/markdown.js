// Model text to markup. Raw HTML in it is shown, never run; nothing in it loads from the network.
import DOMPurify from "./vendor/dompurify.js";
import hljs from "./vendor/highlight.js";
import { Marked } from "./vendor/marked.js";

const escaped = (text) => text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    html({ text }) {
      return escaped(text);
    },
    image({ href, text }) {
      return `<a href="${escaped(href)}">${escaped(`Image: ${text || href}`)}</a>`;
    },
    code({ text, lang }) {
      const language = (lang ?? "").trim().split(/\s/)[0];
      const known = hljs.getLanguage(language);
      const body = known ? hljs.highlight(text, { language }).value : escaped(text);
      return `<div class="code"><div class="code-bar"><span>${escaped(language || "text")}</span>`
        + '<button type="button" class="quiet" data-copy>Copy</button></div>'
        + `<pre tabindex="0"><code>${body}</code></pre></div>`;
    },
    table(token) {
      const cells = (row, tag) => row.map((cell) =>
        `<${tag}${cell.align ? ` align="${cell.align}"` : ""}>${this.parser.parseInline(cell.tokens)}</${tag}>`);
      const line = (row, tag) => `<tr>${cells(row, tag).join("")}</tr>`;
      const body = token.rows.map((row) => line(row, "td")).join("");
      return '<div class="scroll" tabindex="0" role="region" aria-label="Table"><table>'
        + `<thead>${line(token.header, "th")}</thead><tbody>${body}</tbody></table></div>`;
    },
    checkbox({ checked }) {
      return checked ? "☑ " : "☐ ";
    },
  },
});

const PURE = {
  ALLOWED_TAGS: ["a", "blockquote", "br", "button", "code", "del", "div", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"],
  ALLOWED_ATTR: ["align", "aria-label", "class", "data-copy", "href", "role", "start", "tabindex", "title", "type"],
  ADD_URI_SAFE_ATTR: ["align", "data-copy", "start", "tabindex", "type"],
  ALLOW_DATA_ATTR: false,
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
};

const purify = DOMPurify(window);
purify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName !== "A") return;
  node.setAttribute("rel", "noopener noreferrer nofollow");
  node.setAttribute("target", "_blank");
});

/** The top-level blocks of `text`. While it grows only the last of them changes. */
export function blocks(text) {
  return marked.lexer(text).filter(({ type }) => type !== "space" && type !== "def");
}

/** Safe markup of one block. */
export function markup(block) {
  return purify.sanitize(marked.parser([block]), PURE);
}
