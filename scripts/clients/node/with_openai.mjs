// The official OpenAI client for Node: the chat route, and the Responses route beside it.
import OpenAI from "openai";
import * as checks from "./checks.mjs";

const { MODEL: model, KEY: apiKey } = checks;
const client = new OpenAI({ baseURL: `${checks.STARTER}/v1`, apiKey, maxRetries: 0 });
const told = new OpenAI({ baseURL: `${checks.TOLD}/v1`, apiKey, maxRetries: 0 });
const messages = [{ role: "user", content: checks.HELLO }];

async function chat() {
  const other = await client.responses.create({ model, input: checks.HELLO, max_output_tokens: 16 });
  checks.said(other.output_text);
  const reply = await client.chat.completions.create({ model, messages, max_tokens: 16 });
  return checks.said(reply.choices[0].message.content);
}

async function stream() {
  const pieces = [];
  for await (const event of told.responses.stream({ model, input: checks.HELLO })) {
    if (event.type === "response.output_text.delta") pieces.push(event.delta);
  }
  checks.joined(pieces);
  const events = client.chat.completions.stream({ model, messages, max_tokens: 16 });
  const texts = [];
  for await (const chunk of events) texts.push(chunk.choices[0]?.delta.content ?? "");
  await events.finalChatCompletion();
  return checks.joined(texts);
}

async function tools() {
  const offered = [
    { type: "function", function: { name: "get_weather", parameters: checks.PLACE } },
  ];
  const asked = [{ role: "user", content: checks.ASK }];
  const first = await client.chat.completions.create({
    model,
    messages: asked,
    tools: offered,
    tool_choice: "required",
    parallel_tool_calls: false,
    max_tokens: 64,
  });
  const message = first.choices[0].message;
  const [call] = message.tool_calls;
  const content = checks.weather(JSON.parse(call.function.arguments));
  const second = await client.chat.completions.create({
    model,
    messages: [...asked, message, { role: "tool", tool_call_id: call.id, content }],
    tools: offered,
    tool_choice: "none",
    max_tokens: 16,
  });
  return checks.said(second.choices[0].message.content);
}

async function structured() {
  const reply = await client.chat.completions.parse({
    model,
    messages,
    max_tokens: 64,
    response_format: {
      type: "json_schema",
      json_schema: { name: "trip", schema: checks.TRIP, strict: true },
    },
  });
  return checks.isTrip(JSON.parse(reply.choices[0].message.content));
}

async function cancel() {
  const counting = [{ role: "user", content: checks.COUNT }];
  const events = await told.chat.completions.create({ model, messages: counting, stream: true });
  let count = 0;
  for await (const _ of events) if (++count === 5) break;
  return "left after 5 chunks";
}

checks.run(chat, stream, tools, structured, cancel);
