/** Parts that several views show of a picture: itself, the labels that it was given, its confidences. */

import { picture } from "./api.js";
import { el, mark } from "./dom.js";

/** What a person who does not see the picture is told of it. */
export function altOf(item) {
  if (item.ask) return "Image on which the rule abstains";
  if (item.none) return "Picture with none of the labels";
  return item.given.length ? `Image with ${item.given.join(", ")}` : "Image";
}

/** The picture of an item in a box whose size does not depend on it; words where it cannot be shown. */
export function frame(item, side, { lazy = false, testid = null } = {}) {
  const box = el("span", { class: "frame", "data-testid": testid });
  if (!item.picture) return withoutPicture(box, item.why);
  const image = el("img", {
    alt: altOf(item),
    width: side,
    height: side,
    decoding: "async",
    loading: lazy ? "lazy" : "eager",
  });
  image.addEventListener("error", () => withoutPicture(box, "The image cannot be shown."), { once: true });
  image.src = picture(item.row, side);
  box.append(image);
  return box;
}

function withoutPicture(box, why) {
  box.classList.add("frame-empty");
  box.replaceChildren(el("span", { class: "frame-why" }, el("b", {}, "No image"), why ?? ""));
  return box;
}

/** What is true of a label as far as people have said: what was edited, else the true labels. */
export const truthOf = (label) => label.edited ?? label.target;

/** The labels that a picture was given, as chips; "none of these" and "ask a person" are answers of their own. */
export function chips(item, most = Infinity) {
  if (item.ask) return [el("span", { class: "chip chip-ask" }, "Abstained")];
  if (item.none) return [el("span", { class: "chip chip-none" }, "None of these")];
  const known = new Map(item.labels.map((label) => [label.name, truthOf(label)]));
  const shown = item.given.slice(0, most).map((name) => chip(name, known.get(name)));
  const rest = item.given.length - shown.length;
  return rest > 0 ? [...shown, el("span", { class: "chip chip-more" }, `+${rest}`)] : shown;
}

function chip(name, truth) {
  const sign = truth === 1 ? "✓" : truth === 0 ? "✕" : null;
  const words = truth === 1 ? "true" : "not true";
  return el(
    "span",
    { class: "chip", "data-truth": truth, title: name },
    sign && el("span", { class: "sign", role: "img", "aria-label": words }, sign),
    el("span", { class: "chip-name" }, name),
  );
}

/** The answer about one picture, large: the set, or that it is none of these, or that a person should look. */
export function verdict(answer, testid) {
  const box = el("div", { class: "verdict", "data-testid": testid });
  if (answer.ask) {
    box.classList.add("verdict-ask");
    box.append(
      el("strong", {}, "Abstained"),
      el("span", {}, "The prediction is too uncertain."),
    );
  } else if (answer.none) {
    box.classList.add("verdict-none");
    box.append(el("strong", {}, "None of these"), el("span", {}, "No label is probable enough."));
  } else {
    box.append(el("span", { class: "chips" }, chips(answer)));
  }
  return box;
}

const SIGNS = {
  there: ["✓", "true"],
  wrong: ["✕", "not true"],
  missed: ["!", "true, missed"],
  unknown: ["?", "not known"],
};

/** How a decision stands against what is true; null where there is nothing to tell. */
function standing(label) {
  const truth = truthOf(label);
  if (truth === 1) return label.given ? "there" : "missed";
  if (truth === 0) return label.given ? "wrong" : null;
  return truth === -1 ? "unknown" : null;
}

/** All confidences of a picture as bars: given labels solid, the others as an outline. */
export function bars(labels, { testid = null } = {}) {
  return el("ul", { class: "bars", role: "list", "data-testid": testid }, labels.map(bar));
}

function bar(label) {
  const stands = standing(label);
  const [sign, words] = SIGNS[stands] ?? [];
  return el(
    "li",
    { class: "bar", "data-given": label.given, "data-stands": stands },
    el(
      "span",
      { class: "bar-name", title: label.name },
      label.name,
      label.given && el("span", { class: "unseen" }, ", predicted"),
    ),
    el(
      "span",
      { class: "bar-truth" },
      sign && [el("span", { class: "sign", "aria-hidden": "true" }, sign), words],
      label.edited !== null && el("span", { class: "bar-edited" }, sign ? ", reviewed" : "reviewed"),
    ),
    el("span", { class: "bar-number" }, label.prob_words),
    track(label.prob),
  );
}

/** A bar of a fraction. */
export function track(fraction, kind = "") {
  const inner = el("span", { class: "fill" });
  setTrack(inner, fraction);
  return el("span", { class: `track ${kind}`, "aria-hidden": "true" }, inner);
}

/** Moves a bar. */
export function setTrack(inner, fraction) {
  inner.style.width = `${(100 * Math.min(1, Math.max(0, fraction ?? 0))).toFixed(2)}%`;
  mark(inner, "data-empty", !fraction);
}
