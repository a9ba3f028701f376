/** The start of the page: asks what was opened, builds the views, and shows the one that the address names. */

import { ask, sentenceOf } from "./api.js";
import { button, byId, el, mark, whole } from "./dom.js";
import { mountClassify } from "./classify.js";
import { mountDecide } from "./decide.js";
import { mountKeys } from "./keys.js";
import { mountReview } from "./review.js";
import { VIEWS, addressOf, go, onRoute, route, start } from "./route.js";
import { mountSearch } from "./search.js";
import { collection, open } from "./session.js";
import { mountTrust } from "./trust.js";

async function begin() {
  try {
    open(await ask("/api/collection"));
  } catch (error) {
    return fail(sentenceOf(error));
  }
  forgetUnknown();
  byId("failure").hidden = true;
  byId("collection-name").textContent = collection().name;
  byId("collection-name").title = `${collection().name}: ${collection().pictures_words}`;
  onRoute(showView);
  mountSplit();
  mountSearch(byId("view-search"));
  mountReview(byId("view-review"));
  mountClassify(byId("view-classify"));
  mountTrust(byId("view-trust"));
  mountDecide(byId("decide"));
  mountKeys();
  mountSkip();
  start();
}

/** Leaves out of the address what this collection does not have, such as a split of the one that was open before. */
function forgetUnknown() {
  const { splits, labels } = collection();
  const { split, label } = route();
  if (split && !(split in splits)) go({ split: "" }, { replace: true });
  if (label && !labels.includes(label)) go({ label: "" }, { replace: true });
}

function fail(sentence) {
  byId("failure").replaceChildren(sentence, button("Try again", begin, { kind: "plain" }));
  byId("failure").hidden = false;
}

function showView(now, before) {
  for (const view of VIEWS) byId(`view-${view}`).hidden = view !== now.view;
  for (const tab of document.querySelectorAll(".tabs a")) {
    tab.href = addressOf(tab.dataset.view);
    mark(tab, "aria-current", tab.dataset.view === now.view ? "page" : null);
  }
  const title = now.view[0].toUpperCase() + now.view.slice(1);
  document.title = `${now.view === "search" && now.q ? now.q : title} – ${collection().name} – manyhot studio`;
  if (before.view && before.view !== now.view) scrollTo(0, 0);
}

/** The part of the collection that is looked at, in all views. */
function mountSplit() {
  const { splits, rows } = collection();
  const names = Object.keys(splits);
  if (names.length === 0) return;
  const select = byId("split");
  select.append(el("option", { value: "" }, `All (${whole(rows)})`));
  select.append(...names.map((name) => el("option", { value: name }, `${name} (${whole(splits[name])})`)));
  select.addEventListener("change", () => go({ split: select.value, row: "" }));
  onRoute((now) => (select.value = names.includes(now.split) ? now.split : ""));
  byId("split-field").hidden = false;
}

/** The skip link moves the focus without changing the address, which says what is on the screen. */
function mountSkip() {
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId("main").focus();
  });
}

begin();
