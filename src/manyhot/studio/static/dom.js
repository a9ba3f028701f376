/** Building and finding elements. Texts become text nodes and never markup: names of labels and files are not trusted. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element. Attributes that are null, undefined or false are left out; functions listen to the event after "on".
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...any} children nodes, texts, or lists of them; null, undefined and false are left out
 */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false)
      node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const byId = (id) => document.getElementById(id);

/** Sets an attribute, or takes it away where the value is null or false. */
export function mark(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : value);
}

/** A button that does something; `kind` is a class of the style sheet. */
export function button(text, act, { kind = "", testid = null, key = null, ...rest } = {}) {
  const hint = key && el("kbd", { "aria-hidden": "true" }, key);
  return el("button", { type: "button", class: kind, "data-testid": testid, onclick: act, ...rest }, text, hint);
}

/** Calls `act` once nothing has been wanted for so many milliseconds; `.now()` calls at once, `.cancel()` not at all. */
export function debounced(act, milliseconds) {
  let timer = 0;
  const later = (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...args), milliseconds);
  };
  later.cancel = () => clearTimeout(timer);
  later.now = (...args) => {
    clearTimeout(timer);
    act(...args);
  };
  return later;
}

/** Says something to people who listen to the page instead of looking at it. */
export function say(words) {
  byId("say").textContent = words;
}

/** "2,345" */
export const whole = (number) => Math.round(number).toLocaleString("en-GB");

/** "81 %", written as `manyhot.terminal.percent` writes a probability; a dash where there is no number. */
export function percent(fraction) {
  if (fraction === null || fraction === undefined) return "–";
  const share = 100 * fraction;
  const least = Number(Math.min(share, 100 * (1 - fraction)).toPrecision(4));
  if (least <= 0) return `${fraction > 0 ? 100 : 0}\u00a0%`;
  if (least < 1e-4) return fraction > 0.5 ? ">\u00a099.9999\u00a0%" : `${share.toExponential(1)}\u00a0%`;
  return `${share.toFixed(Math.max(0, 1 - Math.floor(Math.log10(least))))}\u00a0%`;
}
