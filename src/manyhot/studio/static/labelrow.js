/** One label of the picture under review: what is known of it, and the answers. */

import { button, el, mark } from "./dom.js";
import { track } from "./parts.js";

/**
 * What holds for a label as it is shown: 1 there, 0 not there, null not known. What a person said comes first, then
 * the true labels; where there are none, what was decided is put forward, until somebody says that it is unknown.
 */
export function standingOf(label) {
  if (label.edited === -1) return null;
  return label.edited ?? (isKnown(label) ? label.target : Number(label.given));
}

const isKnown = (label) => label.target === 1 || label.target === 0;

export class LabelRow {
  /**
   * @param {object} label of an item
   * @param {{question: string | null, told: boolean}} asked what is asked about it, if it is doubtful, and whether that
   *   tells what was known before
   * @param {(value: 0 | 1 | -1 | null) => void} answer -1 it is unknown, null as it was before somebody said something
   */
  constructor(label, { question, told }, answer) {
    Object.assign(this, { label, question, told, answer });
    this.note = el("span", { class: "label-note soft" });
    this.buttons = this.answers();
    const hooks = { "data-testid": "review-label", "data-name": label.name, "data-question": question !== null };
    this.root = el(
      "div",
      { class: "label-row", role: "group", tabindex: "-1", ...hooks },
      el("div", {}, this.words(), this.note),
      el("div", { class: "answer-buttons" }, [...this.buttons.values()]),
    );
    this.reflect();
  }

  /** In words under a question, where there is room, as signs in the list. */
  answers() {
    return new Map([
      [1, this.button(1, "There", "✓", "accept", "y")],
      [0, this.button(0, "Not there", "✕", "reject", "n")],
      [-1, this.button(-1, "Unknown", "?", "unknown", null)],
      [null, this.button(null, "As before", "↺", "withdraw", null)],
    ]);
  }

  button(value, words, sign, testid, key) {
    const act = () => this.answer(value);
    if (this.question !== null && value !== null) return button(words, act, { testid, key });
    return button(sign, act, { testid, "aria-label": `${words}: ${this.label.name}`, title: words });
  }

  words() {
    const { name, prob, prob_words: number } = this.label;
    if (this.question !== null) return el("p", { class: "question-words" }, this.question);
    const shown = prob !== null && [track(prob), el("span", { class: "bar-number" }, number)];
    return el("p", { class: "label-name" }, el("b", {}, name), shown);
  }

  /** Shows how the label stands now. */
  reflect() {
    const { label, root, buttons } = this;
    const stands = standingOf(label);
    mark(root, "data-stands", stands === null ? "unknown" : String(stands));
    mark(root, "data-edited", label.edited !== null);
    for (const value of [1, 0, -1]) buttons.get(value).setAttribute("aria-pressed", String(value === (stands ?? -1)));
    buttons.get(null).disabled = label.edited === null; // there is nothing to take back
    this.note.textContent = this.noteWords();
    const said = { 1: "there", 0: "not there", null: "not known" }[stands];
    root.setAttribute("aria-label", `${label.name}${label.prob_words ? `, ${label.prob_words}` : ""}: ${said}`);
  }

  noteWords() {
    const { label } = this;
    if (label.edited !== null) return label.edited === -1 ? "You said that it is unknown." : "You said so.";
    if (this.told) return "";
    if (isKnown(label)) return label.target === 1 ? "Among its labels." : "Not among its labels.";
    return label.given ? "Decided." : "Decided against.";
  }

  setChosen(chosen) {
    mark(this.root, "data-chosen", chosen);
    this.root.tabIndex = chosen ? 0 : -1;
    for (const one of this.buttons.values()) one.tabIndex = chosen ? 0 : -1;
  }
}
