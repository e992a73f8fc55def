// The official Anthropic client for Node.
import Anthropic from "@anthropic-ai/sdk";
import * as checks from "./checks.mjs";

const { KEY: apiKey } = checks;
const client = new Anthropic({ baseURL: checks.STARTER, apiKey, maxRetries: 0 });
const told = new Anthropic({ baseURL: checks.TOLD, apiKey, maxRetries: 0 });
const model = "claude-slipstream";
const messages = [{ role: "user", content: checks.HELLO }];

async function chat() {
  await client.messages.countTokens({ model, messages });
  const reply = await client.messages.create({ model, messages, max_tokens: 16 });
  return checks.said(reply.content[0].text);
}

async function stream() {
  const pieces = [];
  const events = client.messages.stream({ model, messages, max_tokens: 16 });
  events.on("text", (text) => pieces.push(text));
  await events.finalMessage();
  return checks.joined(pieces);
}

async function tools() {
  const offered = [{ name: "get_weather", input_schema: checks.PLACE }];
  const asked = { role: "user", content: checks.ASK };
  const first = await client.messages.create({
    model,
    messages: [asked],
    tools: offered,
    tool_choice: { type: "any", disable_parallel_tool_use: true },
    max_tokens: 64,
  });
  const call = first.content.find((block) => block.type === "tool_use");
  const content = checks.weather(call.input);
  const result = { type: "tool_result", tool_use_id: call.id, content };
  const second = await client.messages.create({
    model,
    messages: [
      asked,
      { role: "assistant", content: first.content },
      { role: "user", content: [result] },
    ],
    tools: offered,
    tool_choice: { type: "none" },
    max_tokens: 16,
  });
  return checks.said(second.content[0].text);
}

async function structured() {
  const reply = await client.messages.create({
    model,
    messages,
    max_tokens: 64,
    output_config: { format: { type: "json_schema", schema: checks.TRIP } },
  });
  return checks.isTrip(JSON.parse(reply.content[0].text));
}

async function cancel() {
  const counting = [{ role: "user", content: checks.COUNT }];
  const events = told.messages.stream({ model, messages: counting, max_tokens: 32000 });
  let count = 0;
  for await (const _ of events) if (++count === 7) break;
  return "left after 7 events";
}

checks.run(chat, stream, tools, structured, cancel);
