// What the Node programs share; the twin of ../python/checks.py.
import assert from "node:assert";

export const STARTER = process.env.SLIPSTREAM_STARTER; // a small model, which has to be made to call
export const TOLD = process.env.SLIPSTREAM_TOLD; // does as it is told: SAY, CALL, COUNT
export const MODEL = "default";
export const KEY = "none";

export const HELLO = "Say hello.";
export const ASK = "How is the weather in Rome?";
export const ORDER = 'CALL: get_weather {"city": "Rome"}';
export const COUNT = "COUNT";

const CITY = { type: "string", enum: ["Paris", "Rome"] };

export const PLACE = object({ city: CITY });
export const TRIP = object({ city: CITY, days: { type: "integer", enum: [1, 2, 3] } });

function object(properties) {
  const required = Object.keys(properties);
  return { type: "object", properties, required, additionalProperties: false };
}

export function weather({ city }) {
  assert(["Paris", "Rome"].includes(city), city);
  return `It is sunny in ${city}.`;
}

export function isTrip(found) {
  assert(["Paris", "Rome"].includes(found.city) && [1, 2, 3].includes(found.days));
  return JSON.stringify(found);
}

export function joined(pieces) {
  const text = pieces.join("");
  assert(pieces.length > 1 && text, "a stream comes in several pieces");
  return text;
}

export function said(text) {
  assert(text, "the answer is empty");
  return text;
}

export function repeated(text) {
  assert(text.includes("sunny in Rome"), text);
  return text;
}

/** Runs all, in order, and prints a line of JSON for each. Cancellation comes last. */
export async function run(...checks) {
  let failed = false;
  for (const check of checks) {
    const line = { check: check.name, ok: true };
    try {
      line.said = (await check()).slice(0, 100);
    } catch (error) {
      console.error(error);
      failed = true;
      Object.assign(line, { ok: false, error: String(error).slice(0, 300) });
    }
    console.log(JSON.stringify(line));
  }
  process.exit(failed ? 1 : 0);
}
