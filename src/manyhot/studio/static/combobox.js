/** A field that completes what is written, after the ARIA pattern of a combobox with a list. */

import { onlyLatest, sentenceOf, wasReplaced } from "./api.js";
import { el, mark, say } from "./dom.js";

const MOST = 12; // labels that are put forward

/** @typedef {{label: string, note?: string}} Option */

export class Combobox {
  options = [];
  text = null; // what stood in the field when the options were asked for
  active = -1;
  nextSignal = onlyLatest();

  /**
   * @param {HTMLInputElement} input
   * @param {HTMLElement} list an empty <ul> after the input
   * @param {{source: (text: string, cursor: number, signal: AbortSignal) => Promise<{options: Option[], eager: boolean}>,
   *   take: (option: Option) => void, first?: boolean, closed?: () => void, answered?: () => void}} how
   *   source: what may be meant, and whether the list opens without being asked for; take: what to do with the chosen
   *   one; first: whether Enter takes the first one where none is chosen; closed: called when none was taken;
   *   answered: called when it is known what may be meant
   */
  constructor(input, list, { source, take, first = false, closed = () => {}, answered = () => {} }) {
    Object.assign(this, { input, list, source, take, first, closed, answered });
    prepare(input, list);
    input.addEventListener("keydown", (event) => !event.isComposing && this.pressed(event));
    input.addEventListener("input", () => this.complete());
    input.addEventListener("blur", () => this.close());
  }

  get isOpen() {
    return !this.list.hidden;
  }

  close() {
    const was = this.isOpen;
    this.nextSignal(); // an answer that is under way would open the list again
    this.show([]);
    if (was) this.closed();
  }

  show(options) {
    this.options = options;
    this.active = -1;
    this.list.replaceChildren(...options.map((option, place) => this.line(option, place)));
    this.list.hidden = options.length === 0;
    this.input.setAttribute("aria-expanded", String(this.isOpen));
    this.input.removeAttribute("aria-activedescendant");
  }

  line({ label, note = "" }, place) {
    return el(
      "li",
      {
        role: "option",
        id: `${this.list.id}-${place}`,
        "aria-selected": "false",
        onpointerdown: (event) => event.preventDefault(), // the field keeps the focus
        onclick: () => this.pick(place),
      },
      el("span", { class: "option-label" }, label),
      el("span", { class: "option-note" }, note),
    );
  }

  choose(place) {
    this.active = (place + this.options.length) % this.options.length;
    const lines = [...this.list.children];
    lines.forEach((line, at) => line.setAttribute("aria-selected", String(at === this.active)));
    lines[this.active].scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", lines[this.active].id);
  }

  pick(place) {
    const option = this.options[Math.max(0, place)];
    this.nextSignal();
    this.show([]);
    this.take(option);
  }

  /** Asks what may be meant; `asked` by somebody who wants the list, whatever stands in the field. */
  async complete({ asked = false } = {}) {
    const text = this.input.value;
    try {
      const found = await this.source(text, this.input.selectionStart, this.nextSignal());
      if (document.activeElement !== this.input || this.input.value !== text) return;
      const was = this.isOpen;
      this.text = text;
      this.show(asked || found.eager ? found.options : []);
      this.answered();
      if (was && !this.isOpen) this.closed();
      if (asked && this.isOpen) this.choose(0);
      if (this.isOpen) say(`${this.options.length} suggestions`);
    } catch (error) {
      if (wasReplaced(error)) return;
      sentenceOf(error); // completion is a help: without an answer the field works as before
      this.close();
    }
  }

  pressed(event) {
    const { key } = event;
    const chosen = this.isOpen && (this.first || this.active >= 0);
    if (key === "ArrowDown") stop(event, () => this.step(1));
    else if (key === "ArrowUp") stop(event, () => this.step(-1));
    else if (key === "Escape" && this.isOpen) stop(event, () => this.close());
    else if (key === "Enter" && chosen) stop(event, () => this.pick(this.active));
    else if (key === "Tab" && this.isOpen && !event.shiftKey) stop(event, () => this.pick(this.active));
  }

  step(by) {
    if (!this.isOpen) this.complete({ asked: true });
    else if (this.active < 0) this.choose(by > 0 ? 0 : -1);
    else this.choose(this.active + by);
  }
}

function prepare(input, list) {
  const pattern = { role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": list.id };
  const plain = { autocomplete: "off", autocapitalize: "none", spellcheck: "false" };
  for (const [name, value] of Object.entries({ ...pattern, ...plain })) mark(input, name, value);
  mark(list, "role", "listbox");
  list.hidden = true;
}

function stop(event, act) {
  event.preventDefault();
  event.stopPropagation();
  act();
}

/** Labels whose name begins with a text, then those that have it in them. */
function matching(labels, text) {
  const wanted = text.trim().toLowerCase();
  const found = labels.filter((label) => label.toLowerCase().includes(wanted));
  const begins = (label) => Number(label.toLowerCase().startsWith(wanted));
  return found.sort((a, b) => begins(b) - begins(a)).slice(0, MOST);
}

/** A combobox that chooses one label of the collection. */
export function labelBox(input, list, { labels, take }) {
  const source = async (text) => ({
    options: matching(labels, text).map((label) => ({ label })),
    eager: text.trim() !== "",
  });
  return new Combobox(input, list, { source, take: (option) => take(option.label), first: true });
}
