// What the words of a placement mean. The docs say more: concepts, "Reasons" and "How a session ends".

import { html } from "./html.js";

export const REASONS = {
  none: "shares every step with the others",
  lane_requested: "the request asked for the solo lane",
  mixer_not_found: "this model shows no part that takes the cache",
  self_check_failed: "rows that shared a step did not get their own logits",
  method_not_autoregressive: "this model does not draw token by token",
};

export const ENDINGS = {
  stop: "the model was done, or met a stop text",
  length: "the longest answer or the context was used up",
  tool_calls: "the model called a tool",
  stop_string: "a stop text was found",
  disconnect: "the client went away",
  deadline: "--request-timeout passed",
  slow_reader: "the client stopped reading",
  sink_fault: "tokens could not become text",
  shutdown: "the server was closing",
  operator: "somebody ended it on purpose",
};

export function Lane({ lane, reasons }) {
  return html`<span class="lane ${lane}">${lane}</span>${reasons.map((one) =>
    html` <span class="reason" title=${REASONS[one] ?? ""}>${one}</span>`)}`;
}
