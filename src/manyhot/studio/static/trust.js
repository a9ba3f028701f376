/** Trust: whether probabilities come true, drawn and told, and how often each label is expected and there. */

import { ask, onlyLatest, sentenceOf, wasReplaced } from "./api.js";
import { labelBox } from "./combobox.js";
import { button, el, percent, whole } from "./dom.js";
import { LabelsTable } from "./labelstable.js";
import { reliabilityChart } from "./reliability.js";
import { go, onRoute } from "./route.js";
import { collection, judgedSplit } from "./session.js";

const UNKNOWN = "Calibration can be measured only where true labels are known.";
const LEGEND =
  "On the diagonal, probabilities are calibrated. Below it the model is overconfident, above it underconfident. " +
  "The bars are 95 % intervals; they are long where there are few answers.";

export function mountTrust(root) {
  root.append(el("h2", { class: "view-title" }, "Trust"));
  if (!collection().has_targets) {
    root.append(el("p", { class: "notice", "data-testid": "no-targets" }, UNKNOWN));
    mountLabels(root, null);
    return;
  }
  const view = new Reliability(root);
  mountLabels(root, (label) => view.choose(label));
  onRoute((now) => now.view === "trust" && view.follow(now));
}

/** The table of labels, which counts the pictures of the split. */
function mountLabels(root, choose) {
  const table = new LabelsTable(choose);
  const problem = el("p", { class: "notice", role: "alert", hidden: true });
  const nextSignal = onlyLatest();
  let shown = "";
  root.append(table.root, problem);
  onRoute(async ({ view }) => {
    const split = judgedSplit();
    if (view !== "trust" || split === shown) return;
    shown = split;
    const signal = nextSignal();
    try {
      table.show(split ? await ask("/api/collection", { params: { split }, signal }) : collection());
      problem.hidden = true;
    } catch (error) {
      if (wasReplaced(error)) return;
      shown = null; // so that it is asked for again
      problem.textContent = sentenceOf(error);
      problem.hidden = false;
    }
  });
}

/** The diagram of all labels or of one, with its words and its numbers. */
class Reliability {
  shown = null;
  nextSignal = onlyLatest();
  chart = reliabilityChart();

  constructor(root) {
    this.title = el("h3", { "data-testid": "trust-title" });
    this.words = el("div", { class: "trust-words", "data-testid": "trust-words" });
    this.numbers = el("div");
    const summary = el("summary", {}, "The same as a table");
    this.table = el("details", { "data-testid": "trust-table", hidden: true }, summary, this.numbers);
    this.head = this.chooser();
    const said = el("div", {}, this.words, this.table);
    root.append(this.head, this.title, el("div", { class: "trust-diagram" }, this.chart.root, said));
  }

  chooser() {
    const input = { type: "text", id: "trust-label", "data-testid": "trust-label", placeholder: "All labels together" };
    const list = { id: "trust-options", class: "options", "data-testid": "trust-options", "aria-label": "Labels" };
    this.input = el("input", input);
    this.all = button("All labels", () => go({ label: "" }), { kind: "plain", testid: "trust-all" });
    const options = el("ul", list);
    labelBox(this.input, options, { labels: collection().labels, take: (label) => go({ label }) });
    const field = el("div", { class: "field" }, this.input, options);
    return el("div", { class: "trust-head" }, el("label", { for: "trust-label" }, "Label"), field, this.all);
  }

  choose(label) {
    go({ label });
    this.head.scrollIntoView();
  }

  async follow({ label, split }) {
    const wanted = JSON.stringify([label, split]);
    if (wanted === this.shown) return;
    this.shown = wanted;
    this.input.value = label;
    this.all.hidden = label === "";
    this.title.textContent = label === "" ? "All labels together" : label;
    try {
      const found = await ask("/api/reliability", { params: { label, split }, signal: this.nextSignal() });
      this.show(found, rowsWords(judgedSplit()));
    } catch (error) {
      if (!wasReplaced(error)) this.fail(sentenceOf(error));
    }
  }

  show(found, rows) {
    this.chart.show(found);
    this.words.replaceChildren(...sentences(found, rows));
    this.numbers.replaceChildren(binsTable(found.bins));
    this.table.hidden = false;
  }

  fail(sentence) {
    this.shown = null; // so that it is asked for again
    this.chart.clear();
    this.table.hidden = true;
    this.words.replaceChildren(el("p", { class: "notice", role: "alert" }, sentence));
  }
}

/** Which pictures are judged. */
function rowsWords(split) {
  const { rows, splits } = collection();
  return `Evaluated on ${split ? `the ${whole(splits[split])} images of ${split}` : `all ${whole(rows)} images`}.`;
}

function sentences({ words, cells, ece_words, ace_words }, rows) {
  const few = words.length === 0 && ["There are too few confident answers to measure their calibration."];
  const numbers = [
    ["Expected calibration error", ece_words],
    ["Average calibration error", ace_words],
    ["Answers", whole(cells)],
  ];
  return [
    el("p", { "data-testid": "trust-rows" }, rows),
    ...(few || words).map((sentence) => el("p", {}, sentence)),
    el(
      "dl",
      { class: "numbers" },
      numbers.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
    ),
    el("p", { class: "soft" }, LEGEND),
  ];
}

function binsTable(bins) {
  const head = ["Probability", "Predicted", "Observed", "95 % interval", "Answers"];
  const between = (low, high) => `${percent(low)} to ${percent(high)}`;
  const row = ({ low, high, promised, observed, least, most, cells }) =>
    [between(low, high), percent(promised), percent(observed), between(least, most), whole(cells)].map(cell);
  const table = el("table", {}, el("thead", {}, line(head.map(headCell))), el("tbody", {}, bins.map(row).map(line)));
  return el("div", { class: "scroll-x", tabindex: "0", role: "region", "aria-label": "Table of the diagram" }, table);
}

const cell = (text) => el("td", {}, text);
const headCell = (text) => el("th", { scope: "col" }, text);
const line = (cells) => el("tr", {}, cells);
