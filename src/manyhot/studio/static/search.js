/** Search: a query, how many pictures are expected to match it, and the pictures by falling probability. */

import { ask, wasReplaced } from "./api.js";
import { Detail } from "./detail.js";
import { el, mark } from "./dom.js";
import { Gallery } from "./gallery.js";
import { onKeys } from "./keys.js";
import { go, onRoute, route } from "./route.js";
import { SearchBar } from "./searchbar.js";
import { collection, decidesAnew, wayParams } from "./session.js";

export function mountSearch(root) {
  const view = new SearchView(root);
  onRoute((now, before) => view.follow(now, before));
  onKeys("everywhere", { "/": () => view.focus() });
}

class SearchView {
  shown = null; // what was searched for last

  constructor(root) {
    this.bar = new SearchBar();
    this.hits = el("p", { class: "hits", role: "status", "data-testid": "hits" });
    this.results = new Gallery({
      onOpen: (row) => this.detail.open(row),
      onPage: (page, shown) => (this.hits.textContent = shown ? page.hits_words : "There are no images here."),
    });
    this.detail = new Detail(this.results);
    root.append(this.bar.root, this.hits, this.results.root);
  }

  follow(now, before) {
    if (now.view !== "search") return this.detail.follow("");
    // Labels may have been edited in another view.
    if (before.view && (before.view !== now.view || decidesAnew(now, before))) this.results.refresh();
    this.search(now);
    this.detail.follow(now.row);
  }

  focus() {
    if (route().view !== "search") go({ view: "search" });
    this.bar.focus();
  }

  async search({ q, split }) {
    const wanted = JSON.stringify([q, split]);
    if (wanted === this.shown) return;
    this.shown = wanted;
    this.bar.show(q);
    mark(this.results.root, "aria-busy", "true");
    try {
      const page = await this.results.load(sourceOf(q, split));
      this.bar.found(page.expected?.words ?? collection().pictures_words, q);
    } catch (error) {
      if (wasReplaced(error)) return;
      this.shown = null;
      this.results.clear();
      this.hits.textContent = "";
      this.bar.refused(error, q);
    }
    mark(this.results.root, "aria-busy", null);
  }
}

/** Where the pages of a query come from, each with the way to decide of that moment. */
const sourceOf = (q, split) => (offset, limit, signal) =>
  ask("/api/search", { params: { q, split, offset, limit, ...wayParams() }, signal });
