/** All labels with the number of pictures that are expected to have them, and that do where it is known. */

import { button, el, mark, whole } from "./dom.js";
import { track } from "./parts.js";
import { collection } from "./session.js";

const FIRST = 100; // labels that are listed before somebody asks for all
const COLUMNS = [
  ["name", "Label", "ascending"],
  ["expected", "Expected", "descending"],
  ["present", "True", "descending"],
];

export class LabelsTable {
  by = "expected";

  /** @param {((label: string) => void) | null} choose what a click on a label does */
  constructor(choose) {
    const { labels, present } = collection();
    Object.assign(this, { labels, choose });
    this.order = labels.map((_, place) => place);
    this.body = el("tbody", { "data-testid": "label-rows" });
    this.more = button(`All ${whole(labels.length)} labels`, () => this.fill(Infinity), { kind: "plain" });
    this.heads = COLUMNS.slice(0, present ? 3 : 2).map(([by, title]) => this.head(by, title));
    this.root = this.build(present);
    this.show(collection());
  }

  /** Shows the numbers of all pictures, or those of a split. @param {{expected: number[], present: number[] | null}} */
  show({ expected, present }) {
    Object.assign(this, { expected, present });
    this.most = expected.reduce((a, b) => Math.max(a, b), 1e-9);
    this.sort(this.by);
  }

  build(present) {
    const words = `Pictures expected to have each label${present ? ", and those that have it" : ""}.`;
    const head = el("thead", {}, el("tr", {}, this.heads, el("td", { class: "wide" })));
    return el(
      "section",
      { class: "label-list" },
      el("h3", {}, "Labels"),
      el("p", { class: "soft" }, words),
      el("table", { class: "label-table", "data-testid": "label-table" }, head, this.body),
      this.more,
    );
  }

  head(by, title) {
    const sort = button(title, () => this.sort(by), { kind: "link" });
    return el("th", { scope: "col", "data-by": by }, sort);
  }

  sort(by) {
    this.by = by;
    const { labels, expected, present } = this;
    const sorts = {
      name: (a, b) => labels[a].localeCompare(labels[b]),
      expected: (a, b) => expected[b] - expected[a],
      present: (a, b) => present[b] - present[a],
    };
    this.order.sort(sorts[by]);
    this.heads.forEach((head, at) => mark(head, "aria-sort", head.dataset.by === by ? COLUMNS[at][2] : null));
    this.fill(FIRST);
  }

  fill(count) {
    this.body.replaceChildren(...this.order.slice(0, count).map((place) => this.row(place)));
    this.more.hidden = count >= this.labels.length;
  }

  row(place) {
    const name = this.labels[place];
    const shown = this.choose ? button(name, () => this.choose(name), { kind: "link" }) : name;
    return el(
      "tr",
      { "data-label": name },
      el("th", { scope: "row" }, shown),
      el("td", {}, this.expected[place].toFixed(1)),
      this.present && el("td", {}, whole(this.present[place])),
      el("td", { class: "wide" }, track(this.expected[place] / this.most)),
    );
  }
}
