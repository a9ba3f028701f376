/** The search bar: the field with its completion, and below it the count of expected matches or what is wrong. */

import { ask, onlyLatest, Refused, wasReplaced } from "./api.js";
import { Combobox } from "./combobox.js";
import { debounced, el, mark, whole } from "./dom.js";
import { go, route } from "./route.js";
import { collection } from "./session.js";

const TYPING_PAUSE = 120;
const RESERVED = /^(and|or|not|none|any|only|count|atleast|atmost|exactly)$/i;

export class SearchBar {
  wrong = null; // the text that is known to be wrong
  nextSignal = onlyLatest();
  expectSoon = debounced(() => this.expect(), TYPING_PAUSE);

  constructor() {
    this.build();
    this.box = new Combobox(this.input, this.list, {
      source: suggestions,
      take: (option) => this.insert(option),
      closed: () => this.expectSoon(),
      answered: () => this.expectSoon(), // a word that seemed wrong may be the beginning of a label, and the reverse
    });
    this.input.addEventListener("input", this.expectSoon);
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
  }

  build() {
    const hooks = { id: "q", "data-testid": "search-input", "aria-describedby": "count" };
    this.input = el("input", { type: "text", enterkeyhint: "search", placeholder: placeholder(), ...hooks });
    this.list = el("ul", { id: "suggestions", class: "options", "data-testid": "suggestions", "aria-label": "Labels" });
    this.count = el("div", { id: "count", class: "count", role: "status", "data-testid": "count" });
    this.form = el(
      "form",
      { role: "search", class: "search-bar" },
      el("label", { for: "q", class: "unseen" }, "Query"),
      el("div", { class: "field" }, this.input),
      el("button", { type: "submit", class: "primary", "data-testid": "search-button" }, "Search"),
    );
    this.hints = examples();
    // The list comes below the count, which changes while the list is open.
    const field = el("div", { class: "search-field" }, this.form, this.count, this.list);
    this.root = el("div", {}, field, this.hints);
  }

  /** Writes the query of the address into the field, unless it stands there already. */
  show(text) {
    this.box.close();
    this.expectSoon.cancel();
    this.nextSignal();
    this.hints.hidden = text !== "";
    if (this.input.value.trim() !== text) this.input.value = text;
  }

  focus() {
    this.input.select();
  }

  /** Tells what a search found, unless somebody has gone on typing: then the count of the new text is told. */
  found(words, text) {
    if (this.input.value.trim() === text) this.tell(words);
  }

  /** Shows what is wrong with a text that was searched for, unless somebody is changing it. */
  refused(error, text) {
    if (this.input.value.trim() === text) this.complain(error, text);
  }

  tell(words) {
    this.wrong = null;
    mark(this.input, "aria-invalid", null);
    const waits = this.input.value.trim() !== route().q && el("span", { class: "soft" }, " Enter shows them.");
    this.count.replaceChildren(el("p", {}, words, waits));
  }

  /** Shows what is wrong with a text, and where. */
  complain(error, text) {
    if (!(error instanceof Refused)) throw error;
    this.wrong = error.status === 200 ? text : null; // where the server failed, asking again may help
    mark(this.input, "aria-invalid", "true");
    const words = el("p", { class: "wrong", "data-testid": "query-error" }, error.sentence);
    this.count.replaceChildren(words, ...pointed(text, error.place));
  }

  /** Asks how many pictures match what stands in the field. */
  async expect() {
    const text = this.input.value;
    const signal = this.nextSignal();
    if (text.trim() === "") return this.tell(collection().pictures_words);
    if (this.isUnfinished(text)) return this.count.replaceChildren(el("p", { class: "soft" }, "…"));
    try {
      const { expected } = await ask("/api/expect", { params: { q: text, split: route().split }, signal });
      this.tell(expected.words);
    } catch (error) {
      if (!wasReplaced(error)) this.complain(error, text);
    }
  }

  /** Whether somebody is in the middle of a word or after an operator, when nothing is wrong yet. */
  isUnfinished(text) {
    const options = this.box.text === text ? this.box.options : []; // those of an older text say nothing of this one
    const word = options.length ? text.slice(options[0].start, options[0].end) : "";
    const begun = word.replace(/["']/g, "").toLowerCase();
    const named = options.some((option) => option.insert === word);
    if (!named && options.some(({ label }) => label.toLowerCase().includes(begun))) return true;
    return document.activeElement === this.input && /([&|!(,]|\b(and|or|not))\s*$/i.test(text);
  }

  insert({ insert: name, start, end }) {
    this.input.setRangeText(name, start, end, "end");
    this.input.focus();
    this.expectSoon();
  }

  submit() {
    this.box.close();
    this.expectSoon.cancel();
    const text = this.input.value.trim();
    if (this.wrong !== null && this.wrong.trim() === text) return; // the reason is on the screen
    this.nextSignal();
    if (text === route().q) this.expect();
    else go({ q: text, row: "" });
  }
}

/** The labels that may be meant at the cursor. */
async function suggestions(text, cursor, signal) {
  const params = { q: text, cursor: [...text.slice(0, cursor)].length, split: route().split };
  const answer = await ask("/api/complete", { params, signal });
  const [start, end] = [unitOf(text, answer.start), unitOf(text, answer.end)];
  const written = text.slice(start, end);
  const options = answer.names.map((name) => ({ ...name, start, end, note: `≈ ${whole(name.expected)}` }));
  const said = options.length === 1 && options[0].insert === written;
  return { options, eager: written !== "" && !said };
}

/** Where a character of the server is in a text of the page, which counts some characters as two. */
const unitOf = (text, character) => [...text].slice(0, character).join("").length;

/** The query with the wrong character marked; nothing where no character is wrong. */
function pointed(text, place) {
  if (place === null || place === undefined) return [];
  const letters = [...text];
  const at = letters[place] ?? " ";
  const before = letters.slice(0, place).join("");
  const after = letters.slice(place + 1).join("");
  const marked = el("mark", {}, at === " " ? "\u00a0" : at);
  return [el("code", { class: "pointed", "data-testid": "query-place" }, before, marked, after)];
}

/** Labels that can be written without quotation marks, the most frequent first. */
function plainNames() {
  const { labels, expected } = collection();
  const order = labels.map((_, place) => place).sort((a, b) => expected[b] - expected[a]);
  const isPlain = (name) => /^[A-Za-z_]\w*$/.test(name) && !RESERVED.test(name) && name.length < 20;
  return order.map((place) => labels[place]).filter(isPlain);
}

function placeholder() {
  const [a = "fork", b = "knife"] = plainNames();
  return `${a} & !${b}`;
}

/** A few queries to start from. */
function examples() {
  const [a, b, c] = plainNames();
  const queries = [b && `${a} & ${b}`, c && `${a} and not (${b} or ${c})`, "none", "count >= 3"].filter(Boolean);
  const search = (query) => () => go({ q: query, row: "" });
  const links = queries.map((q) => el("button", { type: "button", class: "example", onclick: search(q) }, q));
  return el("p", { class: "examples", "data-testid": "examples" }, el("span", { class: "soft" }, "For example"), links);
}
