/** What the page asks the server, and how answers that come too late are left out. */

/** What the server refused: a sentence for people, and the character of the query that is wrong. */
export class Refused extends Error {
  constructor(sentence, place = null, status = 0) {
    super(sentence);
    this.sentence = sentence;
    this.place = place;
    this.status = status;
  }
}

const SILENT = "The studio does not answer. Is `manyhot studio` still running?";

/**
 * Asks the server; throws `Refused` with a sentence that can be shown.
 * @param {string} path
 * @param {{params?: object, method?: string, json?: any, body?: FormData, signal?: AbortSignal}} [how]
 */
export async function ask(path, { params = {}, method = "GET", json = null, body = null, signal = null } = {}) {
  const request = { method, signal, credentials: "same-origin", body };
  if (json) Object.assign(request, { body: JSON.stringify(json), headers: { "Content-Type": "application/json" } });
  let response;
  try {
    response = await fetch(withParams(path, params), request);
  } catch (error) {
    throw error.name === "AbortError" ? error : new Refused(SILENT);
  }
  const answer = await read(response);
  // A query that cannot be read is an everyday answer while somebody types, and no failure of the request.
  const problem = response.ok ? answer.problem : answer;
  if (problem)
    throw new Refused(
      problem.sentence ?? `The studio answered with status ${response.status}.`,
      problem.place,
      response.status,
    );
  return answer;
}

async function read(response) {
  try {
    return (await response.json()) ?? {};
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (response.ok) throw new Refused("The studio gave an answer that cannot be read.", null, response.status);
    return {};
  }
}

function withParams(path, params) {
  const known = Object.entries(params).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return known.length ? `${path}?${new URLSearchParams(known)}` : path;
}

export const picture = (row, side) => `/api/pictures/${row}?side=${side}`;

/** Whether a request was broken off because a newer one took its place; that is nothing to tell people. */
export const wasReplaced = (error) => error.name === "AbortError";

/** What is shown of an error that somebody should see; whatever is no refusal is a mistake of the page, and is thrown. */
export function sentenceOf(error) {
  if (error instanceof Refused) return error.sentence;
  throw error;
}

/** Gives a signal for each request, and breaks off the request before. */
export function onlyLatest() {
  let controller = null;
  return () => {
    controller?.abort();
    controller = new AbortController();
    return controller.signal;
  };
}

/** Runs one task at a time; of those that are wanted meanwhile only the last one is run, so sliders stay quick. */
export function coalesced(task) {
  let running = false;
  let wanted = null;
  return async (...args) => {
    wanted = args;
    if (running) return;
    running = true;
    try {
      while (wanted) {
        const now = wanted;
        wanted = null;
        await task(...now);
      }
    } finally {
      running = false;
    }
  };
}
