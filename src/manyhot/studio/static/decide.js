/** How to decide: the ways as radio buttons with their sliders, and what they do to the whole collection. */

import { ask, coalesced, sentenceOf } from "./api.js";
import { button, el, mark, percent, whole } from "./dom.js";
import { setSizes, sizesChart } from "./sizes.js";
import { setTrack, track } from "./parts.js";
import { go, onRoute, route } from "./route.js";
import { collection, decidesAnew, judgedSplit, routeOf, valueWords, wayNow, wayParams } from "./session.js";

/** Fills the panel; `root` is shown beside all views. */
export function mountDecide(root) {
  const toggle = button("How to decide", () => setOpen(root, root.dataset.open !== "true"), {
    kind: "decide-toggle",
    testid: "decide-toggle",
    "aria-controls": "decide-body",
    "aria-expanded": "false",
  });
  const summary = el("span", { class: "decide-summary", "data-testid": "decide-summary" });
  toggle.append(summary);
  const ways = el(
    "fieldset",
    { class: "ways" },
    el("legend", { class: "unseen" }, "Ways to decide"),
    collection().ways.map(wayField),
  );
  const figures = figuresBox();
  const title = el("h2", { class: "decide-title" }, "How to decide");
  root.append(toggle, el("div", { id: "decide-body", class: "decide-body" }, title, ways, figures.root));
  root.hidden = false;

  const decide = coalesced(async () => {
    try {
      const { split } = route();
      const decided = await ask("/api/decide", { params: { ...wayParams(), split } });
      figures.show(decided);
      summary.textContent = summaryOf(decided);
    } catch (error) {
      figures.fail(sentenceOf(error));
    }
  });

  onRoute((now, before) => {
    reflect(ways);
    if (!before.view || decidesAnew(now, before) || now.split !== before.split) decide();
  });
}

function setOpen(root, open) {
  root.dataset.open = String(open);
  root.querySelector(".decide-toggle").setAttribute("aria-expanded", String(open));
}

/** One way: its radio button, its slider, or why it cannot be chosen. */
function wayField(way) {
  const radio = el("input", {
    type: "radio",
    name: "way",
    value: way.by,
    "data-testid": `way-${way.by}`,
    disabled: way.why !== null,
  });
  const output = el("output", { class: "way-value", "data-testid": `value-${way.by}` }, valueWords(way.by, way.value));
  const head = el("label", { class: "way-head" }, radio, el("span", { class: "way-title" }, way.title), output);
  const slider = way.low === null ? null : sliderOf(way);
  const choose = () => go(routeOf(way.by, slider ? Number(slider.value) : null), { replace: true });
  radio.addEventListener("change", choose);
  slider?.addEventListener("input", choose);
  const words = el("p", { class: "way-words" }, way.why ?? way.words);
  return el("div", { class: "way", "data-by": way.by, "data-disabled": way.why !== null }, head, slider, words);
}

function sliderOf(way) {
  const { low: min, high: max, step, by, title } = way;
  const slider = el("input", {
    type: "range",
    min,
    max,
    step,
    "data-testid": `slider-${by}`,
    "aria-label": title,
    disabled: way.why !== null,
  });
  slider.value = way.value;
  return slider;
}

/** Shows which way is chosen; the sliders of the others keep their place. */
function reflect(ways) {
  const now = wayNow();
  for (const field of ways.querySelectorAll(".way")) {
    const chosen = field.dataset.by === now?.by;
    field.querySelector("[type=radio]").checked = chosen;
    mark(field, "data-chosen", chosen);
    if (chosen && now.value !== null) showValue(field, now);
  }
}

function showValue(field, { by, value }) {
  const slider = field.querySelector("[type=range]");
  // While the slider is dragged it is where the value came from.
  if (Number(slider.value) !== value) slider.value = value;
  slider.setAttribute("aria-valuetext", valueWords(by, value));
  field.querySelector("output").textContent = valueWords(by, value);
}

/** Precision, recall and sizes, as numbers and small bars. */
function figuresBox() {
  const precision = figure("Precision", "precision", "of the predicted labels are right");
  const recall = figure("Recall", "recall", "of the true labels are predicted");
  const words = el("p", { class: "decide-words", "data-testid": "decide-words" });
  const promise = el("p", { class: "promise", "data-testid": "promise", hidden: true });
  const problem = el("p", { class: "notice", role: "alert", hidden: true });
  const numbers = ["mean-size", "none-share", "ask-share"].map((id) => el("dd", { "data-testid": id }));
  const names = ["Labels per image", "None of these", "Abstained"];
  const table = el(
    "dl",
    { class: "numbers" },
    names.map((name, at) => el("div", {}, el("dt", {}, name), numbers[at])),
  );
  const basis = el("p", { class: "soft basis", "data-testid": "observed-rows" });
  const chart = sizesChart();
  const root = el("section", { class: "figures", "aria-label": "What it does" });
  root.append(problem, words, promise, precision.root, recall.root, basis, table, chart);

  function show(decided) {
    problem.hidden = true;
    words.textContent = decided.words;
    promise.textContent = decided.promise ?? "";
    promise.hidden = !decided.promise;
    precision.show(decided);
    recall.show(decided);
    const rows = decided.observed?.rows;
    const split = judgedSplit();
    const images = `${rows === 1 ? "image" : "images"}${split ? ` of ${split}` : ""}`;
    basis.textContent = rows ? `Observed on ${whole(rows)} ${images}.` : (decided.too_small ?? "");
    const texts = [decided.mean_size.toFixed(2), percent(decided.none_share), percent(decided.ask_share)];
    texts.forEach((text, at) => (numbers[at].textContent = text));
    setSizes(chart, decided.sizes, decided.more);
  }

  function fail(sentence) {
    problem.textContent = sentence;
    problem.hidden = false;
  }

  return { root, show, fail };
}

/** One figure: what is expected, and below it what was observed where that is known. */
function figure(title, name, words) {
  const lines = ["expected", "observed"].map((kind) => figureLine(name, kind));
  const root = el(
    "div",
    { class: "figure" },
    el("p", { class: "figure-title", title: `Share ${words}` }, title),
    lines.map((line) => line.root),
  );
  const show = (decided) => {
    lines[0].show(decided.expected[name]);
    lines[1].root.hidden = !decided.observed;
    if (decided.observed) lines[1].show(decided.observed[name]);
  };
  return { root, show };
}

function figureLine(name, kind) {
  const number = el("b", { class: "figure-number", "data-testid": `${name}-${kind}` });
  const line = track(0, kind === "observed" ? "track-observed" : "");
  const root = el(
    "p",
    { class: `figure-line figure-${kind}` },
    el("span", { class: "figure-kind" }, kind),
    line,
    number,
  );
  const show = (value) => {
    number.textContent = percent(value);
    setTrack(line.firstChild, value);
  };
  return { root, show };
}

function summaryOf({ by, value, expected }) {
  const way = collection().ways.find((one) => one.by === by);
  const worth = valueWords(by, value);
  return `precision ${percent(expected.precision)} · recall ${percent(expected.recall)} · ${way.title}${worth ? ` ${worth}` : ""}`;
}
