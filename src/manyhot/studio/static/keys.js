/** The keys: one table of them for people, one place that listens. */

import { button, byId, el } from "./dom.js";
import { VIEWS, go, route } from "./route.js";

const GROUPS = [
  [
    "Everywhere",
    [
      ["/", "Search"],
      ["1 2 3 4", "Search, Review, Classify, Trust"],
      ["?", "This list"],
      ["Escape", "Close what is open"],
    ],
  ],
  [
    "Search bar",
    [
      ["↓ ↑", "Choose a label that may be meant"],
      ["Tab", "Take it"],
      ["Enter", "Take the chosen one, or search"],
    ],
  ],
  [
    "Results",
    [
      ["← → ↑ ↓", "Move between images"],
      ["Home End", "First and last image"],
      ["Enter", "Open the image"],
    ],
  ],
  [
    "Open image",
    [
      ["← →", "Previous and next image"],
      ["r", "Review it"],
    ],
  ],
  [
    "Review",
    [
      ["↑ ↓ or k j", "Choose a label"],
      ["y", "It is there"],
      ["n", "It is not there"],
      ["a", "Add a label"],
      ["Enter", "These labels are right; next image"],
      ["s or →", "Skip"],
      ["←", "Back to the previous image"],
      ["u", "Undo"],
    ],
  ],
];
const STORE = "manyhot.studio.letters";
const bound = {}; // by view, or "detail": {key: act}

/** Listens to keys while a view, or the open picture ("detail"), is on the screen. */
export const onKeys = (scope, acts) => Object.assign((bound[scope] ??= {}), acts);

/** Listens on the whole page, and builds the list. */
export function mountKeys() {
  document.addEventListener("keydown", heard);
  byId("keys-button").addEventListener("click", showList);
  buildList();
}

function heard(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (ownsKey(event.target, event.key)) return;
  if (event.key.length === 1 && !lettersOn()) return;
  const act = actFor(event.key);
  if (!act) return;
  event.preventDefault();
  act(event);
}

function actFor(key) {
  const dialog = document.querySelector("dialog[open]");
  const name = key.length === 1 ? key.toLowerCase() : key;
  if (dialog) return bound[dialog.id]?.[name];
  return bound[route().view]?.[name] ?? everywhere(name);
}

function everywhere(key) {
  if (key === "?") return showList;
  const view = VIEWS[Number(key) - 1];
  if (view) return () => go({ view });
  return bound.everywhere?.[key];
}

/** Whether an element does something of its own with a key. */
function ownsKey(target, key) {
  if (!(target instanceof Element)) return false;
  if (target.matches("textarea, select, input:not([type=range], [type=radio], [type=checkbox], [type=file])"))
    return true;
  if (key.length === 1 && key !== " ") return false;
  if (target.matches("input")) return true;
  return (key === "Enter" || key === " ") && target.closest("button, a[href], summary") !== null;
}

let letters = storedLetters();
const lettersOn = () => letters !== "off";

/** Browsers may be told to keep nothing; then the choice holds until the page is left. */
function storedLetters() {
  try {
    return localStorage.getItem(STORE);
  } catch {
    return null;
  }
}

function storeLetters(choice) {
  letters = choice;
  try {
    localStorage.setItem(STORE, choice);
  } catch {
    return; // as above
  }
}

function showList() {
  if (!byId("keys").open) byId("keys").showModal();
}

function buildList() {
  const dialog = byId("keys");
  const close = button("Close", () => dialog.close(), { kind: "plain", autofocus: true });
  dialog.append(
    el("div", { class: "keys-head" }, el("h2", { id: "keys-title" }, "Keys"), close),
    el("div", { class: "keys-groups" }, GROUPS.map(group)),
    lettersField(),
  );
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
}

function group([title, rows]) {
  const lines = rows.map(([keys, words]) => el("div", {}, el("dt", {}, keyCaps(keys)), el("dd", {}, words)));
  return el("section", {}, el("h3", {}, title), el("dl", {}, lines));
}

function keyCaps(keys) {
  return keys.split(" ").map((key) => (key === "or" ? " or " : el("kbd", {}, key)));
}

/** Keys of one letter are in the way of people who speak to their computer. */
function lettersField() {
  const box = el("input", { type: "checkbox", id: "letters" });
  box.checked = lettersOn();
  box.addEventListener("change", () => storeLetters(box.checked ? "on" : "off"));
  return el("label", { class: "check" }, box, "Listen to keys of a single letter or sign");
}
