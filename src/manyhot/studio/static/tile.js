/** One picture in the gallery: a button with the picture, its probability and the labels that it was given. */

import { el } from "./dom.js";
import { altOf, chips, frame, track } from "./parts.js";

const THUMBNAIL = 256;
const MOST_CHIPS = 4;

/** A tile; `fillTile` puts decisions on it again when the way to decide changes, without touching the picture. */
export function tile(item) {
  const button = el(
    "button",
    { type: "button", class: "tile", tabindex: "-1", "data-testid": "tile", "data-row": item.row },
    frame(item, THUMBNAIL, { lazy: true }),
    el("span", { class: "tile-body" }),
  );
  fillTile(button, item);
  return el("div", { role: "listitem" }, button);
}

/** Shows what was decided for a picture. */
export function fillTile(button, item) {
  const image = button.querySelector("img");
  if (image) image.alt = altOf(item);
  button.querySelector(".tile-body").replaceChildren(...body(item));
}

function body(item) {
  const marks = item.done ? ["done"] : item.edited ? ["edited"] : [];
  const prob = item.prob !== null && el("b", { class: "tile-prob", "data-testid": "tile-prob" }, item.prob_words);
  const name = el("span", { class: "tile-name", title: item.path ?? item.name }, item.name);
  const badges = marks.map((words) => el("span", { class: "badge" }, words));
  return [
    el("span", { class: "tile-head" }, prob, name, badges),
    ...(item.prob === null ? [] : [track(item.prob)]),
    el("span", { class: "chips", "data-testid": "tile-labels" }, chips(item, MOST_CHIPS)),
  ];
}
