// Calls to the server: the key, errors with their facts, and streams of events.
import { signal } from "./html.js";

const BASE = new URL("../", import.meta.url);
const KEY = "slipstream.key";
const LONG_SEED = /"seed":(\d{16,})/; // a seed has 63 bits, a number of this language 53

export const key = signal(sessionStorage.getItem(KEY) ?? "");
export const keyAsked = signal(null); // null, "missing" or "wrong"

export function giveKey(value) {
  sessionStorage.setItem(KEY, value);
  key.value = value;
  keyAsked.value = null;
}

/** An answer that is an error. `status` is 0 where it came within a stream. */
export class Refused extends Error {
  constructor(status, told, { retryAfter = null, requestId = null } = {}) {
    super(told.message ?? "The server gave no reason.");
    Object.assign(this, { status, code: told.code, param: told.param, retryAfter, requestId });
  }
}

/** No answer at all. */
export class Unreachable extends Error {}

/** A stream that ended before its end. */
export class Broken extends Error {}

export async function call(path, { body, method, signal: aborted } = {}) {
  const headers = {};
  if (body !== undefined) headers["content-type"] = "application/json";
  if (key.value) headers.authorization = `Bearer ${key.value}`;
  const sent = body === undefined ? undefined : JSON.stringify(body);
  const verb = method ?? (body === undefined ? "GET" : "POST");
  let response;
  try {
    response = await fetch(new URL(path, BASE), { method: verb, headers, body: sent, signal: aborted });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Unreachable(error.message);
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

export async function get(path) {
  return (await call(path)).json();
}

async function refusal(response) {
  if (response.status === 401) keyAsked.value = key.value ? "wrong" : "missing";
  const body = await response.json().catch(() => ({}));
  return new Refused(response.status, body.error ?? {}, {
    retryAfter: response.headers.get("retry-after"),
    requestId: response.headers.get("x-request-id"),
  });
}

/** The data of each server-sent event. */
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const lines = block.split("\n").filter((line) => line.startsWith("data:"));
        if (lines.length) yield lines.map((line) => line.slice(5).trimStart()).join("\n");
      }
    }
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Broken(error.message);
  } finally {
    reader.cancel().catch(() => {}); // it has ended already, or nobody wants the rest
  }
}

/** The chunks of a chat completion. `opened` gets the response's headers before the first. */
export async function* chatChunks(body, aborted, opened) {
  const response = await call("v1/chat/completions", { body, signal: aborted });
  opened(response.headers);
  for await (const data of events(response)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data.replace(LONG_SEED, '"seed":"$1"'));
    if (chunk.error) {
      throw new Refused(0, chunk.error, { requestId: response.headers.get("x-request-id") });
    }
    yield chunk;
  }
  throw new Broken("The stream ended without its last word.");
}
