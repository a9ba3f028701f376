/** What was opened, and how labels are decided: known to all views. */

import { route } from "./route.js";

let facts = null;

/** Keeps the answer of /api/collection. */
export function open(collection) {
  facts = collection;
}

/** The answer of /api/collection. */
export const collection = () => facts;

/** The split whose figures are shown: the chosen one, or else the one that a report judges; "" for all pictures. */
export const judgedSplit = () => route().split || (facts.judged ?? "");

/** The ways that can be chosen. */
const available = () => facts.ways.filter((way) => way.why === null);

/** How labels are decided now: that of the address if it can be chosen, else the first that can. */
export function wayNow() {
  const { by, value } = route();
  const way = available().find((one) => one.by === by) ?? available()[0];
  if (!way) return null;
  return { by: way.by, value: clamp(way.by === by ? value : "", way) };
}

/** A value that the slider of a way can show; its own value where the text is no number. */
function clamp(text, way) {
  if (way.low === null) return null;
  const value = text === "" ? NaN : Number(text);
  return Number.isFinite(value) ? Math.min(way.high, Math.max(way.low, value)) : way.value;
}

/** What a way is in the address: nothing for the one that holds anyway. */
export function routeOf(by, value) {
  const first = available()[0];
  if (by === first.by && (value === null || value === first.value)) return { by: "", value: "" };
  return { by, value: value === null ? "" : String(value) };
}

/** The parameters of a request whose answer depends on how labels are decided. */
export const wayParams = () => wayNow() ?? {};

/** Whether two routes decide in different ways. */
export const decidesAnew = (now, before) => now.by !== before.by || now.value !== before.value;

/** A value in the words of its way: "2.9" labels, or "31 %". */
export function valueWords(by, value) {
  if (value === null) return "";
  return by === "size" ? value.toFixed(1) : `${Number((100 * value).toFixed(1))}\u00a0%`;
}
