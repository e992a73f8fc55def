// The AI SDK (`ai`) with its OpenAI-compatible provider, and its OpenAI one for Responses.
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, Output, stepCountIs, streamText, tool } from "ai";
import * as checks from "./checks.mjs";

const { KEY: apiKey } = checks;

function model(url) {
  const baseURL = `${url}/v1`;
  const options = { name: "slipstream", baseURL, apiKey, supportsStructuredOutputs: true };
  return createOpenAICompatible(options)(checks.MODEL);
}

const starter = { model: model(checks.STARTER), maxRetries: 0 };
const told = { model: model(checks.TOLD), maxRetries: 0 };
const responses = createOpenAI({ baseURL: `${checks.TOLD}/v1`, apiKey }).responses(checks.MODEL);
const get_weather = tool({
  description: "The weather in a city.",
  inputSchema: jsonSchema(checks.PLACE),
  execute: async (place) => checks.weather(place),
});

async function chat() {
  const other = await generateText({ model: responses, prompt: checks.HELLO, maxRetries: 0 });
  checks.said(other.text);
  const reply = await generateText({ ...starter, prompt: checks.HELLO, maxOutputTokens: 16 });
  return checks.said(reply.text);
}

async function stream() {
  const pieces = [];
  const { textStream } = streamText({ ...starter, prompt: checks.HELLO, maxOutputTokens: 16 });
  for await (const text of textStream) pieces.push(text);
  return checks.joined(pieces);
}

async function tools() {
  const asking = { prompt: checks.ORDER, tools: { get_weather }, stopWhen: stepCountIs(3) };
  const other = await generateText({ ...asking, model: responses, maxRetries: 0 });
  checks.repeated(other.text);
  const reply = await generateText({ ...told, ...asking });
  return checks.repeated(reply.text);
}

async function structured() {
  const output = Output.object({ schema: jsonSchema(checks.TRIP) });
  const asking = { prompt: checks.HELLO, output, maxOutputTokens: 64 };
  const reply = await generateText({ ...starter, ...asking });
  return checks.isTrip(reply.output);
}

async function cancel() {
  const abort = new AbortController();
  const asking = { prompt: checks.COUNT, abortSignal: abort.signal };
  const { textStream } = streamText({ ...told, ...asking });
  let count = 0;
  for await (const _ of textStream) if (++count === 5) abort.abort();
  return "aborted after 5 texts";
}

checks.run(chat, stream, tools, structured, cancel);
