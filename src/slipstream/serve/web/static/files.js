// Conversations as files: out as Markdown or JSON, in as JSON.
import { importFrom } from "./conversations.js";
import { say } from "./toast.js";

const HEADS = { user: "You", assistant: "Answer", tool: "Tool result" };

export function exportMarkdown({ title, settings, messages }) {
  const system = settings.system.trim() ? [`## System\n\n${settings.system}`] : [];
  const parts = messages.map((one) => [
    `## ${HEADS[one.role]}`,
    ...(one.content ? [one.content] : []),
    ...(one.calls ?? []).map((call) => `Calls \`${call.name}\`:\n\n\`\`\`json\n${call.arguments}\n\`\`\``),
  ].join("\n\n"));
  download(`${name(title)}.md`, "text/markdown", [`# ${title}`, ...system, ...parts, ""].join("\n\n"));
}

export function exportJson(conversation) {
  download(`${name(conversation.title)}.json`, "application/json", JSON.stringify(conversation, null, 2));
}

export function exportAll(conversations) {
  download("slipstream-conversations.json", "application/json", JSON.stringify(conversations, null, 2));
}

export async function importFile(file) {
  try {
    const found = importFrom(await file.text());
    say(found === 1 ? "One conversation read." : `${found} conversations read.`);
  } catch {
    say(`${file.name} is no file of conversations: it is not JSON.`);
  }
}

function name(title) {
  return title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").toLowerCase() || "conversation";
}

function download(filename, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = Object.assign(document.createElement("a"), { href: url, download: filename });
  link.click();
  URL.revokeObjectURL(url);
}
