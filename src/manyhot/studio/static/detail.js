/** One picture, large, with all its confidences: a dialog over the results. */

import { ask, onlyLatest, sentenceOf, wasReplaced } from "./api.js";
import { button, byId, el, say } from "./dom.js";
import { onKeys } from "./keys.js";
import { bars, frame, track, verdict } from "./parts.js";
import { back, go } from "./route.js";
import { collection, wayParams } from "./session.js";

const LARGE = 1024;

export class Detail {
  row = null;
  pushed = false; // whether the back button closes it
  nextSignal = onlyLatest();

  /** @param {import("./gallery.js").Gallery} results what is shown behind the dialog */
  constructor(results) {
    this.results = results;
    this.dialog = byId("detail");
    this.dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      this.close();
    });
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.close());
    onKeys("detail", { ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1), r: () => this.review() });
  }

  /** Opens a picture from the results. */
  open(row) {
    this.pushed = true;
    go({ row: String(row) });
  }

  /** Shows what the address says: a row, or none. */
  follow(text) {
    const row = /^\d+$/.test(text) ? Number(text) : null;
    if (row === this.row) return;
    this.row = row;
    if (row === null) this.hide();
    else this.show(row);
  }

  hide() {
    this.nextSignal();
    this.pushed = false;
    this.dialog.close();
  }

  async show(row) {
    if (!this.dialog.open) this.dialog.showModal();
    const known = this.results.item(row);
    this.draw(known);
    try {
      const item = await ask(`/api/items/${row}`, { params: wayParams(), signal: this.nextSignal() });
      const whole = { ...item, prob: known?.prob ?? null, prob_words: known?.prob_words ?? null };
      // The picture stays where it is when only the labels are new, so that it does not flicker.
      if (known) this.dialog.querySelector(".detail-facts").replaceChildren(...facts(whole));
      else this.draw(whole);
    } catch (error) {
      if (wasReplaced(error)) return;
      this.dialog.querySelector(".detail-facts").append(el("p", { class: "notice", role: "alert" }, sentenceOf(error)));
    }
  }

  draw(item) {
    const held = this.dialog.contains(document.activeElement) ? document.activeElement.dataset.testid : null;
    const side = el("div", { class: "detail-facts", tabindex: "0" }, item ? facts(item) : []);
    this.dialog.replaceChildren(
      el("div", { class: "detail-picture", "data-testid": "detail-picture" }, item && frame(item, LARGE)),
      el("div", { class: "detail-side" }, side, this.tools()),
    );
    const focused = this.dialog.querySelector(`[data-testid="${held}"]`);
    (focused ?? this.dialog.querySelector("[data-testid=detail-next]")).focus();
    if (item) say(`${item.name}, ${item.ask ? "abstained" : item.none ? "none of these" : item.given.join(", ")}`);
  }

  tools() {
    const plain = (text, testid, act, rest) => button(text, act, { kind: "plain", testid, ...rest });
    const turn = (text, testid, by, words) =>
      plain(text, testid, () => this.step(by), { "aria-label": `${words} image`, title: `${words} (${text})` });
    return el(
      "div",
      { class: "detail-tools" },
      turn("←", "detail-previous", -1, "Previous"),
      turn("→", "detail-next", 1, "Next"),
      collection().review.reviewable && plain("Review", "detail-review", () => this.review(), { key: "r" }),
      plain("Close", "detail-close", () => this.close(), { key: "Esc" }),
    );
  }

  async step(by) {
    const from = this.row;
    const wanted = await this.results.neighbour(from, by);
    if (this.row === from && wanted !== null) go({ row: String(wanted) }, { replace: true });
  }

  close() {
    const left = this.row;
    if (this.pushed) back();
    else go({ row: "" }, { replace: true });
    this.follow(""); // at once; the address follows
    this.results.focus(left);
  }

  review() {
    if (!collection().review.reviewable) return;
    const row = String(this.row);
    this.follow("");
    go({ view: "review", row });
  }
}

/** What is told of a picture beside it. */
function facts(item) {
  const split = item.split && el("span", { class: "badge" }, item.split);
  const prob = () => ["Matches the query: ", el("b", {}, item.prob_words), track(item.prob)];
  return [
    el("h2", { id: "detail-name", "data-testid": "detail-name" }, item.name),
    el("p", { class: "detail-path" }, item.path ?? item.id, split),
    item.prob !== null && el("p", { class: "detail-prob" }, prob()),
    el("h3", {}, "Decided"),
    verdict(item, "detail-verdict"),
    el("h3", {}, "Confidences"),
    bars(item.labels, { testid: "detail-bars" }),
  ].filter(Boolean);
}
