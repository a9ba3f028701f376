/** The labels of the picture under review: doubtful ones as questions first, then the others, each with its answer. */

import { el } from "./dom.js";
import { LabelRow, standingOf } from "./labelrow.js";

const UNLIKELY = 0.05; // labels below it are not worth a line unless somebody has said something about them

export class LabelRows {
  root = el("div", { class: "review-labels", "data-testid": "review-labels" });
  rows = [];
  at = 0;

  /** @param {(name: string, value: 0 | 1 | -1 | null) => void} answer keeps what somebody says about a label */
  constructor(answer) {
    this.answer = answer;
  }

  /** @param {boolean} told whether the questions say what was known before */
  show(item, told) {
    this.item = item;
    const asked = new Set(item.suspects.map((suspect) => suspect.name));
    const others = item.labels.filter((label) => !asked.has(label.name) && isWorthALine(label, item));
    others.sort((a, b) => (standingOf(b) === 1) - (standingOf(a) === 1));
    const questions = item.suspects.map((suspect) => this.row(this.labelOf(suspect), suspect.question_words, told));
    this.rows = [...questions, ...others.map((label) => this.row(label))];
    this.at = 0;
    this.draw();
  }

  row(label, question = null, told = false) {
    const row = new LabelRow(label, { question, told }, (value) => {
      this.at = this.rows.indexOf(row);
      this.answer(label.name, value);
      this.focus(); // not on the button, where Enter would press it again
    });
    row.root.addEventListener("focusin", () => this.rove(this.rows.indexOf(row)));
    return row;
  }

  /** The label that a question is about; it need not be among those that the picture came with. */
  labelOf({ name, prob, target }) {
    return this.known(name) ?? this.newLabel({ name, prob, target, given: this.item.given.includes(name) });
  }

  known(name) {
    return this.item.labels.find((label) => label.name === name);
  }

  newLabel(facts) {
    const label = { prob: null, prob_words: "", given: false, target: null, edited: null, ...facts };
    this.item.labels.push(label);
    return label;
  }

  draw() {
    const questions = this.rows.filter((row) => row.question).map((row) => row.root);
    const others = this.rows.filter((row) => !row.question).map((row) => row.root);
    const headed = (title, nodes) => (nodes.length ? [el("h3", {}, title), ...nodes] : []);
    const title = questions.length === 1 ? "Question" : "Questions";
    this.root.replaceChildren(...headed(title, questions), ...headed("Labels", others));
    this.rove(this.at);
  }

  /** Makes one line the one that Tab leads to, so that long lists are not in the way. */
  rove(place) {
    this.at = Math.max(0, Math.min(this.rows.length - 1, place));
    this.rows.forEach((row, at) => row.setChosen(at === this.at));
  }

  focus({ still = false } = {}) {
    this.rove(this.at);
    this.rows[this.at]?.root.focus({ preventScroll: true });
    if (!still) this.rows[this.at]?.root.scrollIntoView({ block: "nearest" });
  }

  step(by) {
    this.at += by;
    this.focus();
  }

  /** Answers the chosen line, and goes on to the next question that is open. */
  answerChosen(value) {
    const row = this.rows[this.at];
    if (!row) return;
    this.answer(row.label.name, value);
    const open = this.rows.findIndex((one, at) => at > this.at && one.question && one.label.edited === null);
    if (row.question && open > 0) this.at = open;
    this.focus();
  }

  /** Shows what was said about a label, which gets a line if it has none. */
  set(name, edited) {
    const label = this.known(name) ?? this.newLabel({ name });
    label.edited = edited;
    const row = this.rows.find((one) => one.label === label);
    if (row) return row.reflect();
    this.rows.push(this.row(label));
    this.draw();
  }

  chooseName(name) {
    this.at = this.rows.findIndex((row) => row.label.name === name);
    this.focus();
  }

  /** What "these labels are right" says: those that are there, those that are unknown, and none of the others. */
  confirmed() {
    const named = (stands) => this.item.labels.filter((label) => standingOf(label) === stands).map(({ name }) => name);
    return { there: named(1), unknown: named(null) };
  }

  /** Shows that they were confirmed; what is to be saved by name. */
  confirm() {
    const { there, unknown } = this.confirmed();
    for (const label of this.item.labels) label.edited = standingOf(label) ?? -1;
    for (const row of this.rows) row.reflect();
    return Object.fromEntries([...there.map((name) => [name, 1]), ...unknown.map((name) => [name, -1])]);
  }

  /** The same in words. */
  confirmedWords() {
    const { there, unknown } = this.confirmed();
    if (!there.length && !unknown.length) return "Saves that none of the labels is there.";
    const open = unknown.length ? `unknown: ${unknown.join(", ")}; ` : "";
    return `Saves: ${there.length ? `${there.join(", ")}; ` : ""}${open}none of the others.`;
  }
}

/** Of a picture that is done all labels have been told, and the many that are not there would hide the others. */
function isWorthALine(label, { done }) {
  const told = label.edited !== null && !(done && label.edited === 0);
  return label.given || label.prob >= UNLIKELY || standingOf(label) === 1 || told;
}
