/** How many pictures get how many labels, as small bars. */

import { svg, whole } from "./dom.js";

const WIDTH = 280;
const HEIGHT = 108;
const BASE = 76; // where the bars stand
const TOP = 14;

/** An empty chart; `setSizes` draws into it. */
export function sizesChart() {
  return svg("svg", { class: "sizes", role: "img", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "data-testid": "sizes" });
}

/**
 * @param {SVGElement} chart
 * @param {number[]} sizes pictures with 0, 1, 2, ... labels
 * @param {boolean} more whether the last one stands for more labels, too
 */
export function setSizes(chart, sizes, more) {
  const most = Math.max(1, ...sizes);
  const step = Math.min(40, WIDTH / sizes.length);
  const every = Math.ceil(22 / step); // numbers need room
  const bars = sizes.map((count, size) => {
    const height = count === 0 ? 0 : Math.max(1.5, ((BASE - TOP) * count) / most);
    const name = `${size}${more && size === sizes.length - 1 ? "+" : ""}`;
    const middle = (size + 0.5) * step;
    return svg(
      "g",
      {},
      svg("rect", { class: "size-bar", x: size * step + 1, y: BASE - height, width: Math.max(1, step - 2), height }),
      (size % every === 0 || name.endsWith("+")) &&
        svg("text", { class: "axis", x: middle, y: BASE + 13, "text-anchor": "middle" }, name),
      count === most &&
        svg("text", { class: "axis", x: middle, y: BASE - height - 3, "text-anchor": anchor(middle) }, whole(count)),
    );
  });
  const line = svg("line", { class: "axis-line", x1: 0, x2: WIDTH, y1: BASE, y2: BASE });
  const words = sizes.map(
    (count, size) => `${size}${more && size === sizes.length - 1 ? " or more" : ""}: ${whole(count)}`,
  );
  chart.setAttribute("aria-label", `Images by number of labels. ${words.join(", ")}.`);
  chart.replaceChildren(
    ...bars,
    line,
    svg("text", { class: "axis", x: WIDTH / 2, y: HEIGHT - 4, "text-anchor": "middle" }, "labels per image"),
  );
}

const anchor = (x) => (x < 20 ? "start" : x > WIDTH - 20 ? "end" : "middle");
