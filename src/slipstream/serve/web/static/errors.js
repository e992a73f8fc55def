// What went wrong, in plain words, and what to do about it.
import { Broken, Refused, Unreachable } from "./api.js";
import { Unreadable } from "./fields.js";

const SHORTER = "Start a new conversation, edit an earlier message to cut it short, "
  + "or lower “Longest answer” in the settings.";
const BY_CODE = {
  context_length_exceeded: ["This conversation is too long for the model.", SHORTER],
  model_not_found: ["The server does not serve this model.", "Choose another one at the top."],
  queue_full: ["The server is busy: as many requests wait as may.", "Try again in a moment."],
  deadline_exceeded: [
    "The answer took longer than the server allows.",
    "Lower “Longest answer” in the settings, or start the server with a longer --request-timeout.",
  ],
  cancelled: ["The server ended this answer.", "It may be stopping. Try again in a moment."],
  ended_by_operator: ["Somebody ended this answer on the server.", "Try again, unless it was meant."],
  row_fault: ["This answer failed inside the server.", "Others go on. Try again."],
  forward_fault: ["The model failed on this conversation.", "Try again; the server's log has more."],
};
const BY_STATUS = {
  401: ["The server needs an API key.", "Enter it above, then try again."],
  404: ["The server does not know this address.", "Page and server may differ: reload the page."],
  413: ["The request is too large.", "Shorten the message, or raise --max-body on the server."],
  429: BY_CODE.queue_full,
  503: ["The server cannot answer now.", "It may be loading or short of memory. Try again soon."],
};

/** What to say of a server that answers, but has no model yet; null where that is not so. */
export function stillLoading(error) {
  if (!(error instanceof Refused && error.status === 503 && /loading/.test(error.message))) return null;
  return { title: "The model is still loading.", advice: "This page goes on by itself once it is ready.", detail: "", calm: true };
}

/** `{ title, advice, detail }` of anything that was thrown while talking to the server. */
export function explain(error) {
  if (error instanceof Unreachable) {
    return {
      title: "The server does not answer.",
      advice: "See whether “slipstream serve” still runs, then try again. Nothing you wrote is lost.",
      detail: "",
    };
  }
  if (error instanceof Broken) {
    return {
      title: "The connection was lost in the middle of the answer.",
      advice: "What came so far is kept. Try again for a whole answer.",
      detail: "",
    };
  }
  if (error instanceof Refused) return refused(error);
  if (error instanceof Unreadable) {
    return { title: "A setting cannot be read.", advice: "Mend it, then try again.", detail: error.message };
  }
  return { title: "Something in this page failed.", advice: "Reload it.", detail: String(error) };
}

function refused(error) {
  const [title, advice] = BY_CODE[error.code] ?? BY_STATUS[error.status] ?? otherwise(error);
  const wait = error.retryAfter ? ` The server suggests ${error.retryAfter} s.` : "";
  return { title, advice: advice + wait, detail: error.message };
}

function otherwise(error) {
  if (error.status === 400 && error.param) {
    return [`The server refused “${error.param}”.`, "Change it in the settings, then try again."];
  }
  if (error.status === 400) return ["The server refused the request.", "Change it as it says here."];
  const log = error.requestId ? `The server's log has more, under ${error.requestId}.` : "";
  return ["The server failed.", `Try again. ${log}`.trim()];
}
