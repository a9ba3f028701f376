/** One label of the picture under review: what is known of it, and the three answers. */

import { button, el, mark } from "./dom.js";
import { track } from "./parts.js";

/**
 * What holds for a label as it is shown: 1 there, 0 not there, null not known. What a person said comes first, then
 * the true labels; where there are none, what was decided is put forward, until somebody says that they do not know.
 */
export function standingOf(label) {
  const said = label.edited ?? label.target;
  if (said === 1 || said === 0) return said;
  return said === null && !label.waived ? Number(label.given) : null;
}

const isKnown = (label) => label.target === 1 || label.target === 0;

export class LabelRow {
  /**
   * @param {object} label of an item; `waived` where somebody does not know
   * @param {{question: string | null, told: boolean}} asked what is asked about it, if it is doubtful, and whether that
   *   tells what was known before
   * @param {(value: 0 | 1 | null) => void} answer
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
      el("div", { class: "answers3" }, [...this.buttons.values()]),
    );
    this.reflect();
  }

  /** In words under a question, as signs in the list. */
  answers() {
    const back = isKnown(this.label) ? ["As before", "↺"] : ["Unknown", "?"];
    return new Map([
      [1, this.button(1, "There", "✓", "accept", "y")],
      [0, this.button(0, "Not there", "✕", "reject", "n")],
      [null, this.button(null, ...back, "unknown", null)],
    ]);
  }

  button(value, words, sign, testid, key) {
    const act = () => this.answer(value);
    if (this.question !== null) return button(words, act, { testid, key });
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
    for (const [value, one] of buttons) one.setAttribute("aria-pressed", String(value === stands));
    buttons.get(null).disabled = label.edited === null && isKnown(label); // there is nothing to take back
    this.note.textContent = this.noteWords();
    const said = { 1: "there", 0: "not there", null: "not known" }[stands];
    root.setAttribute("aria-label", `${label.name}${label.prob_words ? `, ${label.prob_words}` : ""}: ${said}`);
  }

  noteWords() {
    const { label } = this;
    if (label.edited !== null) return "You said so.";
    if (this.told) return "";
    if (isKnown(label)) return label.target === 1 ? "Among its labels." : "Not among its labels.";
    if (label.target === -1 || label.waived) return "";
    return label.given ? "Decided." : "Decided against.";
  }

  setChosen(chosen) {
    mark(this.root, "data-chosen", chosen);
    this.root.tabIndex = chosen ? 0 : -1;
    for (const one of this.buttons.values()) one.tabIndex = chosen ? 0 : -1;
  }
}
