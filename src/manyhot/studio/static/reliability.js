/** The reliability diagram: promised against observed frequencies with their intervals, and how many answers there are. */

import { el, percent, svg, whole } from "./dom.js";

const PAD = { left: 44, right: 20, top: 12 };
const AXIS = 34; // room for the numbers and the name of an axis
const COUNTS = 72; // height of the bars below
const LARGEST = 480;
const TICKS = [0, 0.25, 0.5, 0.75, 1];

/** A chart that is drawn as wide as its place is, so that its letters keep their size. */
export function reliabilityChart() {
  const root = el("div", { class: "reliability", "data-testid": "reliability" });
  let data = null;
  let drawn = 0;

  function draw() {
    const width = Math.min(LARGEST, root.clientWidth);
    if (!data || width === 0) return;
    drawn = width;
    root.replaceChildren(diagram(data, width));
  }

  new ResizeObserver(() => Math.min(LARGEST, root.clientWidth) !== drawn && draw()).observe(root);
  return {
    root,
    show(found) {
      data = found;
      draw();
    },
    clear() {
      data = null;
      root.replaceChildren();
    },
  };
}

function diagram({ bins, label }, width) {
  const side = width - PAD.left - PAD.right;
  const x = (fraction) => PAD.left + side * fraction;
  const y = (fraction) => PAD.top + side * (1 - fraction);
  const base = PAD.top + side + AXIS + COUNTS;
  const height = base + AXIS;
  const name = `Reliability of ${label ?? "all labels"}: ${bins.map((bin) => `predicted ${percent(bin.promised)}, observed ${percent(bin.observed)}`).join("; ")}.`;
  return svg(
    "svg",
    { class: "chart", role: "img", "aria-label": name, width, height, viewBox: `0 0 ${width} ${height}` },
    grid(x, y),
    svg("line", { class: "diagonal", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }),
    svg("polyline", { class: "curve", points: bins.map((bin) => `${x(bin.promised)},${y(bin.observed)}`).join(" ") }),
    bins.map((bin) => point(bin, x, y)),
    turned("observed frequency", 12, y(0.5)),
    counts(bins, x, base),
    svg("text", { class: "axis", x: x(0.5), y: height - 4, "text-anchor": "middle" }, "predicted probability"),
  );
}

function grid(x, y) {
  return TICKS.map((tick) => [
    svg("line", { class: "grid", x1: x(tick), x2: x(tick), y1: y(0), y2: y(1) }),
    svg("line", { class: "grid", x1: x(0), x2: x(1), y1: y(tick), y2: y(tick) }),
    svg("text", { class: "axis", x: x(0) - 6, y: y(tick) + 4, "text-anchor": "end" }, `${100 * tick}`),
    svg("text", { class: "axis", x: x(tick), y: y(0) + 16, "text-anchor": "middle" }, `${100 * tick} %`),
  ]);
}

function point(bin, x, y) {
  const [middle, least, most] = [x(bin.promised), y(bin.least), y(bin.most)];
  const words = `Predicted ${percent(bin.promised)}, observed ${percent(bin.observed)} (${percent(bin.least)} to ${percent(bin.most)}), ${whole(bin.cells)} answers`;
  return svg(
    "g",
    { class: "point" },
    svg("title", {}, words),
    svg("line", { class: "interval", x1: middle, x2: middle, y1: least, y2: most }),
    svg("line", { class: "interval", x1: middle - 4, x2: middle + 4, y1: least, y2: least }),
    svg("line", { class: "interval", x1: middle - 4, x2: middle + 4, y1: most, y2: most }),
    svg("circle", { class: "dot", cx: middle, cy: y(bin.observed), r: 4 }),
  );
}

/** The numbers of answers on a logarithmic scale: most answers are improbable ones. */
function counts(bins, x, base) {
  const decades = Math.max(1, Math.ceil(Math.log10(Math.max(1, ...bins.map((bin) => bin.cells)))));
  const room = COUNTS - 14;
  const up = (cells) => (room * Math.log10(Math.max(1, cells))) / decades;
  const step = Math.ceil(decades / 3);
  const ticks = Array.from({ length: decades + 1 }, (_, power) => power).filter((power) => power % step === 0);
  return svg(
    "g",
    {},
    ticks.map((power) => [
      svg("line", {
        class: "grid",
        x1: x(0),
        x2: x(1),
        y1: base - (room * power) / decades,
        y2: base - (room * power) / decades,
      }),
      svg(
        "text",
        { class: "axis", x: x(0) - 6, y: base - (room * power) / decades + 4, "text-anchor": "end" },
        short(10 ** power),
      ),
    ]),
    bins.map((bin) => {
      const height = Math.max(1.5, up(bin.cells));
      const bar = {
        class: "count-bar",
        x: x(bin.low) + 1,
        y: base - height,
        width: Math.max(1, x(bin.high) - x(bin.low) - 2),
        height,
      };
      return svg(
        "rect",
        bar,
        svg("title", {}, `${percent(bin.low)} to ${percent(bin.high)}: ${whole(bin.cells)} answers`),
      );
    }),
    turned("answers", 12, base - room / 2),
  );
}

const short = (number) => (number >= 1e6 ? `${number / 1e6}M` : number >= 1e3 ? `${number / 1e3}k` : `${number}`);

function turned(text, x, y) {
  return svg("text", { class: "axis", x, y, "text-anchor": "middle", transform: `rotate(-90 ${x} ${y})` }, text);
}
