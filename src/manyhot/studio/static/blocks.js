/**
 * A grid of very many tiles, in blocks of whole rows. A block that is not near the screen is not laid out at all, so that
 * ten thousand tiles scroll like forty.
 */

import { el } from "./dom.js";

const GAP = 16;
const NARROW = 640;
const ROWS = 10; // of a block

export class BlockGrid {
  tiles = [];
  columns = 1;
  blocks = new Set(); // those on the screen, in part

  /**
   * @param {object} attributes of the element
   * @param {() => void} onNear called when other blocks than before are on the screen
   */
  constructor(attributes, onNear) {
    this.root = el("div", { class: "gallery", role: "list", ...attributes });
    // Blocks are watched and not tiles, because a browser looks at everything that is watched in each frame.
    this.observer = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) this.blocks[isIntersecting ? "add" : "delete"](target);
      onNear();
    });
    new ResizeObserver(() => this.fit()).observe(this.root);
  }

  append(tiles) {
    this.fit();
    this.tiles.push(...tiles);
    this.put(tiles);
  }

  clear() {
    this.tiles = [];
    this.empty();
  }

  /** The tiles of the blocks on the screen; those that are on it themselves in front. */
  near() {
    const found = [...this.blocks].flatMap((block) => [...block.children]);
    return [...new Set([...found.filter(isOnScreen), ...found])];
  }

  put(tiles) {
    for (const tile of tiles) {
      const last = this.root.lastElementChild;
      const full = !last || last.childElementCount === this.columns * ROWS;
      (full ? this.addBlock() : last).append(tile);
    }
  }

  addBlock() {
    const block = el("div", { class: "gallery-block", role: "presentation" });
    this.root.append(block);
    this.observer.observe(block);
    return block;
  }

  empty() {
    this.observer.disconnect();
    this.blocks.clear();
    this.root.replaceChildren();
  }

  /** Makes as many columns as there is room for. */
  fit() {
    const width = this.root.clientWidth;
    const least = width < NARROW ? 150 : 200;
    const columns = Math.max(1, Math.floor((width + GAP) / (least + GAP)));
    if (width === 0 || columns === this.columns) return;
    this.columns = columns;
    this.root.style.setProperty("--columns", columns);
    this.empty();
    this.put(this.tiles);
  }
}

function isOnScreen(tile) {
  const box = tile.getBoundingClientRect();
  return box.bottom > 0 && box.top < window.innerHeight;
}
