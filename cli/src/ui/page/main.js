// The tabs, and the poll that notices that the cluster was read again.
import { age, el, get, replace } from "./dom.js";
import { createCluster } from "./cluster.js";
import { createHistory } from "./history.js";
import { createPlan } from "./plan.js";
import { createQueue } from "./queue.js";

const POLL = 2000;
const CREATE = { queue: createQueue, plan: createPlan, history: createHistory, cluster: createCluster };

const panel = document.getElementById("view");
const tabs = [...document.querySelectorAll("[role=tab]")];
const views = {};
let current;
let revision;

async function refresh() {
  const name = current;
  try {
    await views[name].view.refresh();
  } catch (error) {
    if (name === current) {
      showState(error.message, true);
    }
  }
}

// Shows the view that the address names, such as #plan/podgroup/NAMESPACE/NAME.
function show() {
  const [name, ...rest] = location.hash.slice(1).split("/");
  if (location.hash === "#view") {
    panel.focus();
    return;
  }
  current = Object.hasOwn(CREATE, name) ? name : "queue";
  if (!Object.hasOwn(views, current)) {
    const root = el("div", {});
    views[current] = { root, view: CREATE[current](root) };
  }
  views[current].view.select?.(rest);
  panel.replaceChildren(views[current].root);
  panel.setAttribute("aria-labelledby", `tab-${current}`);
  for (const tab of tabs) {
    const selected = tab.id === `tab-${current}`;
    tab.setAttribute("aria-selected", String(selected));
    tab.setAttribute("tabindex", selected ? "0" : "-1");
  }
  refresh();
}

function showState(text, bad) {
  const state = document.getElementById("state");
  state.className = bad ? "bad" : "";
  // Only a problem is announced, not each read.
  state.setAttribute("role", bad ? "alert" : "none");
  if (state.textContent !== text) {
    state.textContent = text;
  }
}

function showNotes(notes) {
  const text = JSON.stringify(notes);
  const region = document.getElementById("notes");
  if (region.dataset.shown === text) {
    return;
  }
  region.dataset.shown = text;
  replace(region, notes.length === 0 ? undefined : el("section", { "aria-label": "What is not known" }, el("ul", {}, notes.map((note) => el("li", {}, note)))));
}

async function poll() {
  try {
    const next = JSON.parse(await get("/api/revision"));
    showNotes(next.notes);
    if (next.problem) {
      showState(`The cluster cannot be read: ${next.problem}. Shown is its state of ${age(next.readAt)} ago.`, true);
    } else {
      showState(`Read at ${next.readAt}`, false);
    }
    if (next.revision !== revision) {
      const first = revision === undefined;
      revision = next.revision;
      if (!first) {
        refresh();
      }
    }
  } catch (error) {
    showState(`The page is not served any more: ${error.message}. Run kubectl giveway ui again.`, true);
  }
  setTimeout(poll, document.hidden ? 5 * POLL : POLL);
}

function choose(index) {
  const tab = tabs[(index + tabs.length) % tabs.length];
  location.hash = `#${tab.id.slice("tab-".length)}`;
  tab.focus();
}

for (const [index, tab] of tabs.entries()) {
  tab.addEventListener("click", () => choose(index));
  tab.addEventListener("keydown", (event) => {
    const to = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      choose(to);
    }
  });
}
window.addEventListener("hashchange", show);
show();
poll();
