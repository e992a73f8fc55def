// What happens between pressing Enter and the last word: requests, streams, and their ends.
import { signal } from "./html.js";
import { chatChunks } from "./api.js";
import { conversations, current, update } from "./conversations.js";
import { explain } from "./errors.js";
import { requestFields } from "./fields.js";
import { model } from "./server.js";

const PAINT = 40; // milliseconds between two updates of a growing answer
const SAVE = 2000; // and between two that are also kept

/** conversation id -> AbortController of the answer that grows there */
export const running = signal({});

export function send(text) {
  const { id } = current.value;
  append(id, { role: "user", content: text });
  answer(id);
}

/** Results of tool calls, in their order, then the model's next turn. */
export function sendResults(id, calls, results) {
  calls.forEach((call, index) =>
    append(id, { role: "tool", tool_call_id: call.id, name: call.name, content: results[index] }));
  answer(id);
}

/** Answers anew what stands before message `index`. */
export function regenerate(id, index) {
  cut(id, index);
  answer(id);
}

/** Replaces message `index`. After one of the user's all that followed is answered anew. */
export function edit(id, index, content) {
  if (conversations.value[id].messages[index].role === "user") {
    cut(id, index);
    append(id, { role: "user", content });
    answer(id);
  } else {
    update(id, (one) => ({
      messages: one.messages.map((old, at) => (at === index ? { ...old, content } : old)),
    }));
  }
}

export function stop(id) {
  running.value[id]?.abort();
}

function append(id, message) {
  update(id, (one) => ({ messages: [...one.messages, message], updated: Date.now() }));
}

function cut(id, index) {
  stop(id);
  update(id, (one) => ({ messages: one.messages.slice(0, index) }), { keep: false });
}

/** The messages of a conversation as the API has them. */
export function wire({ settings, messages }) {
  const system = settings.system.trim() ? [{ role: "system", content: settings.system }] : [];
  return [...system, ...messages.filter(told).map(plain)];
}

function told(message) {
  return message.role !== "assistant" || message.content || message.calls?.length;
}

function plain(message) {
  if (message.role === "tool") {
    return { role: "tool", tool_call_id: message.tool_call_id, content: message.content };
  }
  if (!message.calls?.length) return { role: message.role, content: message.content };
  const calls = message.calls.map(({ id, name, arguments: given }) =>
    ({ id, type: "function", function: { name, arguments: given } }));
  return { role: "assistant", content: message.content, tool_calls: calls };
}

async function answer(id) {
  const conversation = conversations.value[id];
  const aborter = new AbortController();
  const growing = new Growing(id);
  running.value = { ...running.value, [id]: aborter };
  try {
    const body = {
      model: model.value,
      messages: wire(conversation),
      ...requestFields(conversation.settings),
      stream: true,
      stream_options: { include_usage: true },
    };
    const opened = (headers) => growing.opened(headers);
    for await (const chunk of chatChunks(body, aborter.signal, opened)) growing.push(chunk);
    growing.end("done");
  } catch (error) {
    if (aborter.signal.aborted) growing.end("stopped");
    else growing.end("failed", explain(error));
  } finally {
    if (running.value[id] === aborter) {
      const { [id]: over, ...others } = running.value;
      running.value = others;
    }
  }
}

/** An answer while it grows. It paints itself into its conversation now and then. */
class Growing {
  constructor(id) {
    this.id = id;
    this.message = {
      key: crypto.randomUUID?.() ?? String(Math.random()),
      role: "assistant", state: "running", content: "", reasoning: "", calls: [], account: {},
    };
    this.timer = null;
    this.saved = 0;
    append(id, this.message);
  }

  opened(headers) {
    const reasons = headers.get("x-slipstream-reasons") ?? "";
    this.message.account = {
      lane: headers.get("x-slipstream-lane"),
      reasons: reasons.split(",").filter(Boolean),
      requestId: headers.get("x-request-id"),
    };
    this.paintSoon();
  }

  push(chunk) {
    const choice = chunk.choices[0];
    if (choice) this.add(choice);
    if (chunk.usage) {
      const { account } = this.message;
      this.message.account = { ...account, ...chunk.slipstream, usage: chunk.usage, model: chunk.model };
    }
    this.paintSoon();
  }

  add({ delta, finish_reason: finish }) {
    const { message } = this;
    message.content += delta.content ?? "";
    message.reasoning += delta.reasoning_content ?? "";
    if (finish) message.finish = finish;
    for (const part of delta.tool_calls ?? []) {
      const call = message.calls[part.index] ?? { id: "", name: "", arguments: "" };
      const grown = {
        id: part.id ?? call.id,
        name: call.name + (part.function?.name ?? ""),
        arguments: call.arguments + (part.function?.arguments ?? ""),
      };
      message.calls = Object.assign([...message.calls], { [part.index]: grown });
    }
  }

  end(state, error = null) {
    this.message.state = state;
    this.message.error = error;
    this.paint(true);
  }

  paintSoon() {
    this.timer ??= setTimeout(() => {
      const keep = Date.now() - this.saved > SAVE;
      if (keep) this.saved = Date.now();
      this.paint(keep);
    }, PAINT);
  }

  paint(keep) {
    clearTimeout(this.timer);
    this.timer = null;
    const grown = { ...this.message };
    update(this.id, (one) => ({
      messages: one.messages.map((old) => (old.key === grown.key ? grown : old)),
    }), { keep });
  }
}
