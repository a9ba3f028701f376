/** What is on the screen, as the hash of the address: reloading and the back button keep it. */

import { debounced } from "./dom.js";

export const VIEWS = ["search", "review", "classify", "trust"];
const SHARED = ["split", "by", "value"];
const OWN = { search: ["q", "row"], review: ["order", "row"], classify: [], trust: ["label"] };

/** @typedef {{view: string, q: string, split: string, by: string, value: string, row: string, order: string, label: string}} Route */

const listeners = [];
const kept = Object.fromEntries(VIEWS.map((view) => [view, {}])); // what each view showed last, for its tab
let current = read();

/** The route now; treat it as frozen. @returns {Route} */
export const route = () => current;

/** Calls `listener(route, before)` whenever the route changes. */
export const onRoute = (listener) => listeners.push(listener);

/** Tells all listeners of the route with which the page was opened. */
export function start() {
  window.addEventListener("popstate", follow);
  window.addEventListener("hashchange", follow);
  remember();
  tell(blank());
}

// Browsers complain of pages that write the address at every step of a slider.
const writeSoon = debounced(() => history.replaceState(null, "", address(current)), 300);

/**
 * Changes what is shown.
 * @param {Partial<Route>} change an empty text takes a value away
 * @param {{replace?: boolean}} [how] replace: no new step for the back button; the address follows a moment later
 */
export function go(change, { replace = false } = {}) {
  const before = current;
  const view = change.view ?? before.view;
  const own = view === before.view ? before : { ...blank(), ...kept[view] };
  current = { ...own, ...only(before, SHARED), ...change, view };
  if (address(current) === address(before)) return;
  writeSoon.cancel();
  if (replace) {
    writeSoon();
  } else {
    if (location.hash !== address(before)) history.replaceState(null, "", address(before));
    history.pushState(null, "", address(current));
  }
  remember();
  tell(before);
}

/** Writes the address now, where somebody who reloads at once should find what is shown. */
export const settle = () => writeSoon.now();

/** Goes a step back, as the back button does. */
export function back() {
  writeSoon.cancel();
  history.back();
}

/** The address of a view as it was left, with the split and the way to decide of now. */
export function addressOf(view) {
  const own = view === current.view ? current : { ...blank(), ...kept[view] };
  return address({ ...own, ...only(current, SHARED), view });
}

function follow() {
  if (!location.hash.startsWith("#/") && location.hash !== "") return; // such as the skip link
  const before = current;
  writeSoon.cancel();
  current = read();
  if (address(current) === address(before)) return;
  remember();
  tell(before);
}

function tell(before) {
  for (const listener of listeners) listener(current, before);
}

function remember() {
  // A picture that is open is not kept: its tab leads back to the results.
  kept[current.view] = { ...only(current, OWN[current.view]), row: "" };
}

function blank() {
  return { view: "", q: "", split: "", by: "", value: "", row: "", order: "", label: "" };
}

function only(from, names) {
  return Object.fromEntries(names.map((name) => [name, from[name]]));
}

function read() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const view = VIEWS.includes(path) ? path : VIEWS[0];
  const params = new URLSearchParams(query);
  const own = [...OWN[view], ...SHARED].map((name) => [name, params.get(name) ?? ""]);
  return { ...blank(), ...Object.fromEntries(own), view };
}

function address(from) {
  const params = [...OWN[from.view], ...SHARED].filter((name) => from[name] !== "").map((name) => [name, from[name]]);
  return `#/${from.view}${params.length ? `?${new URLSearchParams(params)}` : ""}`;
}
