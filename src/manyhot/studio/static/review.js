/** Review: one picture at a time, questions first, every answer saved at once. */

import { ask, coalesced, picture, sentenceOf } from "./api.js";
import { button, debounced, el, say, whole } from "./dom.js";
import { onKeys } from "./keys.js";
import { LabelRows } from "./labelrows.js";
import { altOf, frame } from "./parts.js";
import { ReviewQueue } from "./queue.js";
import { addField, fileBox, orderField, progressBox, saveState } from "./reviewparts.js";
import { go, onRoute, route, settle } from "./route.js";
import { SavingQueue } from "./saving.js";
import { collection, wayNow, wayParams } from "./session.js";

const LARGE = 1024;
const SLIDER_PAUSE = 150;

export function mountReview(root) {
  const { review } = collection();
  root.append(el("h2", { class: "view-title" }, "Review"));
  if (review.reviewable) {
    const desk = new Desk(root);
    onRoute((now) => now.view === "review" && desk.follow(now));
    return;
  }
  const why = `Nothing can be edited here${review.why ? `: ${review.why}` : ""}.`;
  root.append(el("p", { class: "notice", "data-testid": "no-review" }, why));
}

class Desk {
  queue = null;
  key = ""; // what the queue is made for
  moving = false;
  ahead = null; // the request for the pictures that come next
  renew = coalesced(() => this.begin());
  renewSoon = debounced(() => this.renew(), SLIDER_PAUSE);

  constructor(root) {
    this.rows = new LabelRows((label, value) => this.answer(label, value));
    this.order = orderField((value) => go({ order: value, row: "" }));
    this.progress = progressBox();
    this.file = fileBox();
    this.saved = saveState({ retry: () => this.saves.flush(), giveUp: () => this.giveUp() });
    this.saves = new SavingQueue(this.saved.show);
    this.add = addField((label) => {
      this.answer(label, 1);
      this.rows.chooseName(label);
    });
    this.build(root);
    this.listen();
    const { trouble } = collection().review;
    if (trouble) this.saved.show({ kind: "saved", trouble });
  }

  build(root) {
    const act = (text, how, then) => button(text, then, { kind: "plain", ...how });
    this.place = el("div", { class: "review-picture", "data-testid": "review-picture" });
    this.name = el("p", { class: "review-name", "data-testid": "review-name" });
    this.summary = el("p", { class: "soft review-summary", "data-testid": "review-summary" });
    this.right = act("These labels are right", { testid: "confirm", kind: "primary", key: "↵" }, () => this.confirm());
    this.skip = act("Skip", { testid: "skip", key: "s" }, () => this.move(1));
    this.undoButton = act("Undo", { testid: "undo", key: "u" }, () => this.undo());
    this.end = el("p", { class: "notice", "data-testid": "review-end", hidden: true });
    const left = el("div", { class: "review-left" }, this.place, this.name);
    const right = el("div", { class: "review-right" }, this.rows.root, this.add.root);
    this.body = el("div", { class: "review-body", hidden: true }, left, right);
    const actions = el("div", { class: "review-actions" }, this.right, this.skip, this.undoButton);
    const bar = el("div", { class: "review-bar" }, this.saved.root, actions, this.summary);
    const head = el("div", { class: "review-head" }, this.order.root, this.progress.root);
    root.append(head, this.body, this.end, bar, this.file.root);
  }

  listen() {
    const step = (by) => () => this.rows.step(by);
    const move = (by) => () => this.move(by);
    onKeys("review", { ArrowDown: step(1), j: step(1), ArrowUp: step(-1), k: step(-1) });
    onKeys("review", { ArrowRight: move(1), s: move(1), ArrowLeft: move(-1) });
    onKeys("review", { y: () => this.rows.answerChosen(1), n: () => this.rows.answerChosen(0) });
    onKeys("review", {
      a: () => !this.body.hidden && this.add.open(),
      Enter: () => this.confirm(),
      u: () => this.undo(),
    });
  }

  /** Shows what the address says: a queue, and a picture of it where one is named. */
  follow({ order, split, row }) {
    this.order.show(order);
    const key = JSON.stringify([this.order.value(), split, wayNow()]);
    const current = this.queue?.current ?? null;
    const chosen = rowOf(row);
    const asked = this.queue?.asked;
    if (key !== this.key) {
      this.key = key;
      const slides = asked?.order === this.order.value() && asked.split === split;
      if (slides) this.renewSoon();
      else this.renewSoon.now();
    } else if (chosen !== null && chosen !== current?.row) {
      this.through(() => this.queue.goTo(chosen));
    } else if (chosen === null && current) {
      go({ row: String(current.row) }, { replace: true });
    }
  }

  /** Starts a queue; another way to decide changes what comes next, not the picture that somebody is looking at. */
  async begin() {
    const { view, split, row } = route();
    if (view !== "review") {
      this.key = ""; // somebody has left meanwhile; it is made when they come back
      return;
    }
    const chosen = rowOf(row);
    const before = this.queue;
    const asked = { order: this.order.value(), split };
    const stays = before?.asked.order === asked.order && before.current?.row === chosen;
    const suspects = stays ? before.current?.suspects : null;
    const queue = (this.queue = new ReviewQueue(asked));
    await this.through(() => (chosen === null ? queue.move(1) : queue.goTo(chosen, suspects)));
    await this.ahead; // so that a slider never has more than one request of its own under way
  }

  /** Goes to another picture; nothing can be said about the old one meanwhile. */
  async through(step) {
    const { queue } = this;
    this.moving = true;
    try {
      const item = await step();
      if (queue === this.queue) this.show(item);
    } catch (error) {
      const sentence = sentenceOf(error);
      if (queue === this.queue)
        this.showEnd(
          sentence,
          button("Try again", () => this.through(step), { kind: "plain" }),
        );
    } finally {
      if (queue === this.queue) this.moving = false;
    }
  }

  move(step) {
    return this.moving || !this.queue ? null : this.through(() => this.queue.move(step));
  }

  show(item) {
    if (!item) return this.showNothingLeft();
    const seen = this.place.dataset.row === String(item.row);
    this.setShown(true);
    this.showPicture(item, seen);
    this.rows.show(item, this.order.value() === "errors");
    this.tell();
    say(`${item.name}. ${altOf(item)}. ${item.suspects.map((one) => one.question_words).join(" ")}`);
    if (route().view === "review") go({ row: String(item.row) }, { replace: true });
    const held = document.activeElement;
    if (!seen && (held === document.body || this.body.contains(held))) this.rows.focus({ still: true });
    this.ahead = this.lookAhead(this.queue);
  }

  /** Asks for the pictures that come next; what fails here fails when it is needed, and is shown then. */
  async lookAhead(queue) {
    await this.saves.running; // else the answer would not count what was said last
    const next = await queue.lookAhead().catch(() => null);
    if (queue !== this.queue) return;
    prefetch(next);
    this.progress.show(queue.counts);
  }

  showPicture(item, seen) {
    if (!seen) this.place.replaceChildren(frame(item, LARGE));
    this.place.dataset.row = item.row;
    const badges = [item.split, item.done && "done"]
      .filter(Boolean)
      .map((text) => el("span", { class: "badge" }, text));
    this.name.replaceChildren(item.path ?? item.name, ...badges);
  }

  showNothingLeft() {
    go({ row: "" }, { replace: true });
    const { done } = this.queue.counts;
    const words = `${whole(done)} ${done === 1 ? "image is" : "images are"} done.`;
    this.showEnd(`Nothing is left to look at in this order. ${words}`);
  }

  showEnd(words, tool = "") {
    this.setShown(false);
    delete this.place.dataset.row;
    this.end.replaceChildren(words, tool);
    this.progress.show(this.queue.counts);
    this.undoButton.disabled = !this.file.anything();
  }

  setShown(shown) {
    this.end.hidden = shown;
    for (const node of [this.body, this.right, this.skip, this.summary]) node.hidden = !shown;
  }

  tell() {
    this.summary.textContent = this.rows.confirmedWords();
    if (this.queue.counted) this.progress.show(this.queue.counts);
    this.undoButton.disabled = !this.file.anything();
  }

  /** Keeps what was said about one label of the picture. */
  answer(label, value) {
    const item = this.queue.current;
    if (this.moving || !item) return;
    this.rows.set(label, value);
    this.keep(item, { labels: { [label]: value } });
    this.tell();
  }

  /** Keeps the labels as they are shown, says of all others that they are not there, and goes on. */
  async confirm() {
    const item = this.queue?.current;
    if (this.moving || !item) return;
    const labels = this.rows.confirm();
    if (!item.done) this.queue.finish(true);
    item.done = true;
    this.keep(item, { labels, rest: 0, done: true });
    await this.move(1);
    settle(); // else a reload would show the picture that is done
  }

  keep({ row, name }, { labels, rest = null, done = null }) {
    this.queue.touch(row);
    this.file.note();
    this.saves.save({ row, name, labels, rest, done });
  }

  async undo() {
    if (!this.file.anything() || !(await this.saves.flush())) return;
    try {
      const { row, item } = await ask("/api/review/undo", { method: "POST", params: wayParams() });
      await this.through(() => this.reopened(row, item));
      this.saved.words(`Taken back: ${item.name}`, item.trouble);
    } catch (error) {
      this.saved.words(sentenceOf(error));
    }
  }

  /** A picture as the server knows it now, with the questions that were asked here. */
  async reopened(row, { labels, done, edited }) {
    const here = await this.queue.goTo(row);
    if (here.done && !done) this.queue.finish(false);
    return Object.assign(here, { labels, done, edited });
  }

  /** Lets go of an edit that cannot be saved; its picture is shown as the server knows it. */
  giveUp() {
    const edit = this.saves.giveUp();
    if (edit)
      this.through(async () => this.reopened(edit.row, await ask(`/api/items/${edit.row}`, { params: wayParams() })));
  }
}

/** The row that an address names, or null. */
const rowOf = (text) => (/^\d+$/.test(text) ? Number(text) : null);

/** Asks for the next picture before it is shown. */
function prefetch(item) {
  if (item?.picture) new Image().src = picture(item.row, LARGE);
}
