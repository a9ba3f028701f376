/** Edits on their way to the server: in order, one at a time, and none is dropped unless somebody says so. */

import { ask, sentenceOf } from "./api.js";
import { wayParams } from "./session.js";

/** @typedef {{row: number, name: string, labels: Record<string, 0 | 1 | -1 | null>, rest: 0 | null, done: boolean | null}} Edit */
/** @typedef {{kind: "saving" | "saved" | "failed", waiting: number, sentence?: string, edit?: Edit, trouble?: string | null}} SaveState */

export class SavingQueue {
  waiting = [];
  running = null;
  failed = false;
  trouble = null; // why the labels file could not be written after the last edit, which is kept in the journal

  /** @param {(state: SaveState) => void} tell */
  constructor(tell) {
    this.tell = tell;
    window.addEventListener("online", () => this.failed && this.flush());
    window.addEventListener("beforeunload", (event) => this.waiting.length && event.preventDefault());
  }

  /** Saves an edit after those before it. @param {Edit} edit */
  save(edit) {
    this.waiting.push(edit);
    return this.flush();
  }

  /** Sends what is waiting; whether everything is saved then. Calls while it runs wait for the same end. */
  flush() {
    this.running ??= this.sendAll().finally(() => (this.running = null));
    return this.running;
  }

  /** Gives up the edit that cannot be saved, and goes on with those after it; the edit, or null if none has failed. */
  giveUp() {
    if (!this.failed) return null;
    const edit = this.waiting.shift();
    this.failed = false;
    if (this.waiting.length) this.flush();
    else this.tell({ kind: "saved", waiting: 0, trouble: this.trouble });
    return edit;
  }

  async sendAll() {
    this.failed = false;
    const any = this.waiting.length > 0;
    while (this.waiting.length) {
      const [edit] = this.waiting;
      this.tell({ kind: "saving", waiting: this.waiting.length });
      try {
        this.trouble = (await send(edit)).trouble ?? null;
      } catch (error) {
        this.failed = true;
        this.tell({ kind: "failed", waiting: this.waiting.length, sentence: sentenceOf(error), edit });
        return false;
      }
      this.waiting.shift();
    }
    if (any) this.tell({ kind: "saved", waiting: 0, trouble: this.trouble });
    return true;
  }
}

function send({ row, labels, rest, done }) {
  return ask(`/api/review/${row}`, { method: "PUT", params: wayParams(), json: { labels, rest, done } });
}
