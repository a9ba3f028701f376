/** The results: a grid that grows by pages, moves by arrow keys, and follows the way to decide. */

import { coalesced, onlyLatest, sentenceOf, wasReplaced } from "./api.js";
import { BlockGrid } from "./blocks.js";
import { button, el, whole } from "./dom.js";
import { fillTile, tile } from "./tile.js";

const PAGE = 40;
const AHEAD = "600px"; // how far below the screen the next page is asked for
const NEAR_END = 10; // tiles before the last one at which arrow keys ask for the next page

export class Gallery {
  source = null; // (offset, limit, signal) => a page
  cards = []; // {item, button, version}
  places = new WeakMap(); // by the button of a tile
  total = 0;
  version = 0; // of the decisions; cards with another one are old
  current = 0;
  loading = null;
  nextSignal = onlyLatest();
  refreshNear = coalesced(() => this.renew());

  /** @param {{onOpen: (row: number) => void, onPage: (page: object, shown: number) => void}} how */
  constructor({ onOpen, onPage }) {
    Object.assign(this, { onOpen, onPage });
    this.blocks = new BlockGrid({ "data-testid": "gallery", "aria-label": "Results" }, () => this.refreshNear());
    this.more = button("More", () => this.loadMore(), { testid: "more", kind: "plain" });
    this.problem = el("p", { class: "notice", role: "alert", "data-testid": "gallery-problem", hidden: true });
    this.foot = el("div", { class: "gallery-foot", hidden: true }, this.more, this.problem);
    this.root = el("div", { class: "gallery-box" }, this.blocks.root, this.foot);
    const seen = (entries) => entries.some((entry) => entry.isIntersecting) && this.loadMore();
    this.footObserver = new IntersectionObserver(seen, { rootMargin: AHEAD });
    this.blocks.root.addEventListener("keydown", (event) => this.pressed(event));
    this.blocks.root.addEventListener("click", (event) => this.clicked(event));
  }

  /** Shows what a source gives; what was shown before stays until its first page is there. */
  async load(source) {
    this.source = source;
    this.loading = null;
    const page = await source(0, PAGE, this.nextSignal());
    this.clear();
    this.append(page);
    return page;
  }

  clear() {
    this.cards = [];
    this.total = 0;
    this.current = 0;
    this.blocks.clear();
    this.foot.hidden = true;
  }

  append(page) {
    const first = this.cards.length === 0;
    this.total = page.total;
    this.blocks.append(page.items.map((item) => this.card(item)));
    if (first) this.rove(0);
    this.problem.hidden = true;
    this.foot.hidden = this.cards.length >= this.total || page.items.length === 0;
    this.more.textContent = `More (${whole(this.cards.length)} of ${whole(this.total)} shown)`;
    // Looked at anew: where the foot stays on the screen after a page, an observer has nothing to report.
    this.footObserver.unobserve(this.foot);
    this.footObserver.observe(this.foot);
    this.onPage(page, this.cards.length);
  }

  card(item) {
    const node = tile(item);
    this.places.set(node.firstChild, this.cards.length);
    this.cards.push({ item, button: node.firstChild, version: this.version });
    return node;
  }

  /** Loads the next page; calls while it is under way wait for the same one. */
  loadMore() {
    if (this.foot.hidden) return Promise.resolve();
    this.loading ??= this.fetchMore(this.source).finally(() => (this.loading = null));
    return this.loading;
  }

  async fetchMore(source) {
    try {
      const page = await source(this.cards.length, PAGE, this.nextSignal());
      if (source === this.source) this.append(page);
    } catch (error) {
      if (!wasReplaced(error)) this.complain(error);
    }
  }

  complain(error) {
    this.problem.textContent = sentenceOf(error);
    this.problem.hidden = false;
    this.foot.hidden = false;
  }

  /** Marks all decisions as old, and renews those on the screen; the others follow when they are scrolled to. */
  refresh() {
    this.version += 1;
    this.refreshNear();
  }

  async renew() {
    const { source } = this;
    for (let old = this.oldRange(); old && source === this.source; old = this.oldRange()) {
      const { version } = this;
      try {
        const page = await source(old.first, old.count);
        if (source !== this.source) return;
        page.items.forEach((item, place) => this.update(old.first + place, item, version));
        if (page.items.length < old.count) return;
      } catch (error) {
        return this.complain(error);
      }
    }
  }

  /** Where decisions are old, from the first one on the screen on; null if they are all new. */
  oldRange() {
    const near = this.blocks.near().map((node) => this.places.get(node.firstChild));
    const first = near.find((place) => this.cards[place].version !== this.version);
    return first === undefined ? null : { first, count: Math.min(PAGE, this.cards.length - first) };
  }

  update(place, item, version) {
    const card = this.cards[place];
    card.version = version;
    if (card.item.row !== item.row) return; // the results are those of another query by now
    card.item = item;
    fillTile(card.button, item);
  }

  pressed(event) {
    const columns = this.blocks.columns;
    const sideways = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
    const steps = { ...sideways, ArrowDown: columns, ArrowUp: -columns };
    if (!(event.key in steps) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.move(this.current + steps[event.key]);
  }

  clicked(event) {
    const hit = event.target.closest(".tile");
    if (!hit) return;
    this.rove(this.places.get(hit));
    this.onOpen(this.cards[this.current].item.row);
  }

  /** Makes one tile the one that Tab leads to. */
  rove(place) {
    if (!this.cards.length) return;
    this.cards[this.current]?.button.setAttribute("tabindex", "-1");
    this.current = Math.min(this.cards.length - 1, Math.max(0, place));
    this.cards[this.current].button.setAttribute("tabindex", "0");
  }

  move(place) {
    this.rove(place);
    this.cards[this.current]?.button.focus();
    if (this.current > this.cards.length - NEAR_END) this.loadMore();
  }

  placeOf(row) {
    return this.cards.findIndex((card) => card.item.row === row);
  }

  /** What is known of a row; null if it is not among the results. */
  item(row) {
    return this.cards[this.placeOf(row)]?.item ?? null;
  }

  /** The row so many steps after another one in the results; null beyond their ends. */
  async neighbour(row, step) {
    const place = this.placeOf(row);
    if (place < 0) return null;
    if (place + step >= this.cards.length - 1) await this.loadMore();
    return this.cards[place + step]?.item.row ?? null;
  }

  /** Puts the focus on the tile of a row. */
  focus(row) {
    this.move(Math.max(0, this.placeOf(row)));
  }
}
