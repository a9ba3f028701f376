/** The pictures that a person should look at, asked for by and by. */

import { ask } from "./api.js";
import { wayParams } from "./session.js";

const PAGE = 20;
const AHEAD = 5; // pictures that are known before they are needed

/** A queue of one order and split; pictures keep their place in it after they were finished. */
export class ReviewQueue {
  items = [];
  known = new Set();
  gone = new Set(); // rows that the server may no longer have in its queue
  at = -1;
  exhausted = false;
  counts = { left: 0, done: 0 };
  counted = false; // whether the server has told them
  fetching = null;

  /** @param {{order: string, split: string}} asked */
  constructor({ order, split }) {
    this.asked = { order, split };
  }

  get current() {
    return this.items[this.at] ?? null;
  }

  /** Goes so many pictures on; the item there, or null after the last one. */
  async move(step) {
    const wanted = Math.max(0, this.at + step);
    if (wanted >= this.items.length && !this.exhausted) await this.fetchMore();
    this.at = Math.min(wanted, this.items.length);
    return this.current;
  }

  /** Asks for what will be needed soon; the picture after this one. */
  async lookAhead() {
    if (!this.exhausted && this.items.length - this.at <= AHEAD) await this.fetchMore();
    return this.items[this.at + 1] ?? null;
  }

  /**
   * Goes to a picture that somebody chose, whether the queue has it or not; those that come next stay next.
   * @param {object[] | null} suspects the questions that were asked about it before, if they are to stay
   */
  async goTo(row, suspects = null) {
    if (!this.known.has(row)) {
      const item = await ask(`/api/items/${row}`, { params: { order: this.asked.order, ...wayParams() } });
      this.put(this.at + 1, { ...item, suspects: suspects ?? item.suspects ?? [] });
      this.gone.add(row);
    }
    this.at = this.items.findIndex((item) => item.row === row);
    return this.current;
  }

  /** Notes that something was said about a picture, so that it may be out of the server's queue. */
  touch(row) {
    this.gone.add(row);
  }

  /** Counts a picture as finished, or as open again. */
  finish(done) {
    const step = done ? 1 : -1;
    const { left, done: before } = this.counts;
    this.counts = { left: Math.max(0, left - step), done: Math.max(0, before + step) };
  }

  /** Asks for pages until there is something new; calls while it runs wait for the same end. */
  fetchMore() {
    this.fetching ??= this.pages().finally(() => (this.fetching = null));
    return this.fetching;
  }

  async pages() {
    const before = this.items.length;
    // The server counts from the front of what is left now, so that what has gone may not be counted here either.
    let offset = Math.max(0, before - this.gone.size);
    while (this.items.length === before && !this.exhausted) {
      const page = await ask("/api/review", { params: { ...this.asked, offset, limit: PAGE, ...wayParams() } });
      this.counts = { left: page.left, done: page.done };
      this.counted = true;
      this.exhausted = page.items.length < PAGE;
      offset += page.items.length;
      for (const item of page.items) if (!this.known.has(item.row)) this.put(this.items.length, item);
    }
  }

  put(place, item) {
    this.known.add(item.row);
    this.items.splice(place, 0, item);
  }
}
