/** Classify: pictures that are dropped, pasted or chosen, a few at once, and what the model says of each. */

import { ask, onlyLatest, sentenceOf, wasReplaced } from "./api.js";
import { button, byId, debounced, el, mark, say } from "./dom.js";
import { bars, verdict } from "./parts.js";
import { go, onRoute } from "./route.js";
import { collection, decidesAnew, wayParams } from "./session.js";

const SHOWN_BARS = 8; // besides labels that are given
const PATIENCE = 5; // how often a picture is sent again when the server is busy
const SLIDER_PAUSE = 200;
const AT_ONCE = 4; // pictures that are under way; the server classifies those that come together in one go

export function mountClassify(root) {
  root.append(el("h2", { class: "view-title" }, "Classify"));
  if (collection().model) {
    const view = new ClassifyView(root);
    onRoute((now, before) => before.view && decidesAnew(now, before) && view.decideAgain());
    return;
  }
  const words =
    "There is no model here, so new images cannot be classified. Open the folder of a run, or start with ";
  const command = el("code", {}, "manyhot studio … --model RUN");
  root.append(el("p", { class: "notice", "data-testid": "no-model" }, words, command, "."));
}

class ClassifyView {
  model = collection().model;
  list = el("div", { class: "answers", "data-testid": "classify-results" });
  cards = [];
  waiting = []; // cards whose picture has not been sent
  sending = 0;
  observer = new IntersectionObserver((changes) => this.noteSeen(changes));

  constructor(root) {
    const take = (files) => this.take(files);
    this.clear = button("Clear", () => this.clearAll(), { kind: "plain", testid: "classify-clear", hidden: true });
    root.append(dropZone(this.model, take), el("div", { class: "answers-tools" }, this.clear), this.list);
    listenToPage(take);
  }

  take(files) {
    const fresh = [...files].map((file) => card(file, this.model, (one) => this.remove(one)));
    if (!fresh.length) return;
    go({ view: "classify" });
    this.list.prepend(...fresh.map((one) => one.root));
    this.cards = [...fresh, ...this.cards];
    this.waiting.push(...fresh.filter((one) => !one.refused));
    for (const one of fresh) this.observer.observe(one.root);
    this.clear.hidden = false;
    this.sendAll();
  }

  noteSeen(changes) {
    for (const { target, isIntersecting } of changes) {
      const one = this.cards.find(({ root }) => root === target);
      if (one) one.seen = isIntersecting;
    }
    this.sendAll();
  }

  /** Sends what is waiting, and what is on the screen but was decided in another way. */
  sendAll() {
    while (this.sending < AT_ONCE) {
      const next = this.waiting.shift() ?? this.cards.find((one) => one.seen && one.isOutdated());
      if (!next) return;
      this.sending += 1;
      next.send().finally(() => {
        this.sending -= 1;
        this.sendAll();
      });
    }
  }

  remove(one) {
    this.cards = this.cards.filter((other) => other !== one);
    this.waiting = this.waiting.filter((other) => other !== one);
    this.observer.unobserve(one.root);
    one.drop();
    this.clear.hidden = this.cards.length === 0;
  }

  clearAll() {
    for (const one of this.cards) this.remove(one);
    byId("files").focus();
  }

  /** Asks again about the pictures on the screen, for another way to decide; about the others when they are seen. */
  decideAgain = debounced(() => this.sendAll(), SLIDER_PAUSE);
}

function dropZone(model, take) {
  const input = el("input", {
    type: "file",
    id: "files",
    multiple: true,
    accept: "image/*",
    "data-testid": "file-input",
  });
  input.addEventListener("change", () => {
    take(input.files);
    input.value = ""; // so that the same file can be chosen again
  });
  return el(
    "div",
    { class: "drop-zone", id: "drop-zone", "data-testid": "drop-zone" },
    el("p", { class: "drop-words" }, "Drop images anywhere on this page, paste one, or"),
    el("label", { class: "file-button", for: "files" }, input, "Choose files"),
    el("p", { class: "soft" }, model.words, ` · up to ${megabytes(model.upload_bytes)} a file`),
  );
}

const megabytes = (bytes) => `${Number((bytes / 2 ** 20).toFixed(1))} MB`;

/** Files that are dropped or pasted anywhere. */
function listenToPage(take) {
  const veil = byId("drop-veil");
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  let depth = 0; // entering a child leaves its parent
  const show = (change) => {
    depth = Math.max(0, depth + change);
    veil.hidden = depth === 0;
  };
  window.addEventListener("dragenter", (event) => hasFiles(event) && show(1));
  window.addEventListener("dragleave", (event) => hasFiles(event) && show(-1));
  window.addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
  window.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    show(-depth);
    take(event.dataTransfer.files);
  });
  window.addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length) event.preventDefault();
    take(files);
  });
}

/** Why a file is not sent; null if it is. */
function refusalOf(file, model) {
  if (file.size > model.upload_bytes) {
    return `${file.name} has ${megabytes(file.size)}; at most ${megabytes(model.upload_bytes)} can be sent. Make it smaller.`;
  }
  if (file.type && !file.type.startsWith("image/")) return `${file.name} is no image. Send a JPEG, PNG or WebP file.`;
  return null;
}

/** One picture and what is said about it. */
function card(file, model, remove) {
  const refused = refusalOf(file, model);
  const address = refused ? null : URL.createObjectURL(file);
  const answer = el("div", { class: "answer-said", "aria-live": "polite" });
  const close = button("×", () => remove(self), { kind: "icon-button", "aria-label": `Remove ${file.name}` });
  const root = el(
    "article",
    { class: "answer", "data-testid": "classify-result", "aria-label": file.name },
    preview(address, file.name),
    el("div", { class: "answer-body" }, el("div", { class: "answer-head" }, el("h3", {}, file.name), close), answer),
  );
  const nextSignal = onlyLatest();
  if (refused) fail(answer, refused);
  else answer.append(el("p", { class: "soft" }, "Waiting …"));

  let way = null; // how labels were decided when it was sent last
  let busy = false;
  const isOutdated = () => way !== null && !busy && way !== JSON.stringify(wayParams());

  async function send() {
    mark(root, "aria-busy", "true");
    busy = true;
    way = JSON.stringify(wayParams());
    try {
      showSaid(answer, await post(file, nextSignal()));
    } catch (error) {
      if (!wasReplaced(error)) fail(answer, sentenceOf(error));
    }
    busy = false;
    mark(root, "aria-busy", null);
  }

  function drop() {
    nextSignal();
    if (address) URL.revokeObjectURL(address);
    root.remove();
  }

  const self = { root, refused, send, drop, isOutdated, seen: false };
  return self;
}

function preview(address, name) {
  const box = el("span", { class: "frame answer-picture" });
  const empty = () => {
    box.classList.add("frame-empty");
    box.replaceChildren(el("span", { class: "frame-why" }, "No preview"));
  };
  if (!address) {
    empty();
    return box;
  }
  const image = el("img", { alt: name, src: address });
  image.addEventListener("error", empty, { once: true });
  box.append(image);
  return box;
}

async function post(file, signal) {
  for (let tries = 1; ; tries += 1) {
    const body = new FormData();
    body.append("image", file, file.name || "pasted.png");
    try {
      return await ask("/api/classify", { method: "POST", params: wayParams(), body, signal });
    } catch (error) {
      if (error.status !== 429 || tries === PATIENCE) throw error;
      await new Promise((done) => setTimeout(done, 1000));
    }
  }
}

function fail(answer, sentence) {
  answer.replaceChildren(el("p", { class: "notice", "data-testid": "classify-problem" }, sentence));
}

function showSaid(answer, said) {
  const shown = Math.max(SHOWN_BARS, 1 + said.labels.findLastIndex((label) => label.given));
  const rest = said.labels.slice(shown);
  // Somebody who has opened the rest keeps it open while a slider moves.
  const open = answer.querySelector("details")?.open;
  const others =
    rest.length > 0 && el("details", { open }, el("summary", {}, `${rest.length} less probable labels`), bars(rest));
  answer.replaceChildren(
    verdict(said, "classify-verdict"),
    bars(said.labels.slice(0, shown), { testid: "classify-bars" }),
    others || "",
    el("p", { class: "soft" }, `${Math.max(1, Math.round(1000 * said.seconds))} ms`),
  );
  say(`${said.name}: ${said.ask ? "abstained" : said.none ? "none of these" : said.given.join(", ")}`);
}
