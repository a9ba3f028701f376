/** What stands around the picture under review: its order, how far one is, whether all is saved, where it goes. */

import { labelBox } from "./combobox.js";
import { button, el, mark, whole } from "./dom.js";
import { setTrack, track } from "./parts.js";
import { collection } from "./session.js";

const ORDERS = [
  ["uncertain", "Most uncertain"],
  ["errors", "Probable annotation errors"],
];

/** Which pictures come first. */
export function orderField(choose) {
  const { has_targets: known } = collection();
  const radios = ORDERS.map(([value]) =>
    el("input", { type: "radio", name: "order", value, "data-testid": `order-${value}` }),
  );
  radios[1].disabled = !known;
  for (const radio of radios) radio.addEventListener("change", () => choose(radio.value));
  const labels = ORDERS.map(([, title], at) => el("label", { class: "segment" }, radios[at], el("span", {}, title)));
  const why = known ? "" : el("span", { class: "soft" }, "Errors can be found only where true labels are known.");
  const value = () => radios.find((radio) => radio.checked).value;
  const show = (wanted) => {
    radios[wanted === "errors" && known ? 1 : 0].checked = true;
  };
  show("");
  const field = el(
    "fieldset",
    { class: "segments" },
    el("legend", { class: "unseen" }, "Which images first"),
    labels,
  );
  return { root: el("div", { class: "review-order" }, field, why), value, show };
}

/** How many are done, and how many are left. */
export function progressBox() {
  const bar = track(0);
  const words = el("span", { class: "soft", "data-testid": "review-progress" });
  const show = ({ done, left }) => {
    setTrack(bar.firstChild, done / Math.max(1, done + left));
    words.textContent = `${whole(done)} done, ${whole(left)} left`;
  };
  return { root: el("p", { class: "review-progress" }, bar, words), show };
}

/** Whether everything is saved; what is not can be repeated or given up. */
export function saveState({ retry, giveUp }) {
  const text = el("span", { role: "status", "data-testid": "save-state" });
  const again = button("Try again", retry, { kind: "plain", testid: "save-retry" });
  const leave = button("Give up this edit", giveUp, { kind: "plain", testid: "save-give-up" });
  const tools = el("span", { class: "save-tools", hidden: true }, again, leave);
  const root = el("div", { class: "save", "data-kind": "none" }, text, tools);

  function show({ kind, waiting, sentence, edit, trouble = null }) {
    mark(root, "data-kind", kind === "saved" && trouble ? "trouble" : kind);
    tools.hidden = kind !== "failed";
    mark(document.querySelector(".tabs [data-view=review]"), "data-alert", kind === "failed");
    if (kind === "saved") text.textContent = trouble ? troubleWords(trouble) : "✓ Saved";
    if (kind === "saving") text.textContent = "Saving …";
    if (kind === "failed")
      text.textContent = `Not saved (${edit.name}${waiting > 1 ? ` and ${waiting - 1} more` : ""}): ${sentence}`;
  }

  const words = (said, trouble = null) => {
    mark(root, "data-kind", trouble ? "trouble" : "none");
    text.textContent = trouble ? `${said}. ${troubleWords(trouble)}` : said;
  };
  return { root, show, words };
}

const troubleWords = (trouble) => `Saved in the journal; the labels file could not be written: ${trouble}`;

/** Adds a label that is not on the screen. */
export function addField(add) {
  const input = el("input", {
    type: "text",
    id: "add-label",
    "data-testid": "add-input",
    placeholder: "Name of a label",
    "aria-label": "Label to add",
  });
  const list = el("ul", { id: "add-options", class: "options", "data-testid": "add-options", "aria-label": "Labels" });
  const field = el("div", { class: "field add-field", hidden: true }, input, list);
  const opener = button("Add a label", () => open(), { testid: "add", kind: "plain", key: "a" });

  function open() {
    field.hidden = false;
    opener.hidden = true;
    input.value = "";
    input.focus();
  }

  function close() {
    field.hidden = true;
    opener.hidden = false;
  }

  const take = (name) => {
    close();
    add(name);
  };
  labelBox(input, list, { labels: collection().labels, take });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    close();
    opener.focus();
  });
  input.addEventListener("blur", close);
  return { root: el("div", { class: "add" }, opener, field), open };
}

/** Where the labels go, and how to train with them. */
export function fileBox() {
  const { file, edited, done } = collection().review;
  const command = `manyhot train DATA --corrections ${quoted(file)}`;
  const code = el("code", { "data-testid": "review-command" }, command);
  const copy = button("Copy", () => copyText(command, code, copy), { kind: "plain", testid: "copy-command" });
  const link = el("a", { href: "/api/review/file", download: "", "data-testid": "review-file" }, "Download it");
  const words = el("p", {}, "Your labels are kept in ", el("code", {}, file), ". ", link);
  let any = edited + done > 0;
  link.hidden = !any;
  const note = () => {
    any = true;
    link.hidden = false;
  };
  const train = el("p", {}, "Train with them: ", code, copy);
  const root = el("footer", { class: "review-file" }, words, train, el("p", {}, ...trainingHint()));
  return { root, note, anything: () => any };
}

/** How to come to the photos that the network learns from, which the table of a run does not hold. */
function trainingHint() {
  const [predict, studio] = ["manyhot predict RUN DATA -o all.parquet", "manyhot studio all.parquet"];
  const start = "The table of a run holds its validation and test photos. To review the photos to train on: ";
  return [start, el("code", {}, predict), ", then ", el("code", {}, studio), "."];
}

/** A path as a shell takes it. */
const quoted = (path) => (/^[\w./~-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`);

/** Copies a text; where the browser does not let the page, the text is selected for the hand. */
async function copyText(text, node, copy) {
  try {
    await navigator.clipboard.writeText(text);
    copy.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(node);
  }
}
