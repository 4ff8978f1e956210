// The tabs, and the request that waits for changes of the cluster.
import { age, el, get, query, replace } from "./dom.js";
import { createCluster } from "./cluster.js";
import { createHistory } from "./history.js";
import { createPlan } from "./plan.js";
import { createQueue } from "./queue.js";

// Milliseconds until the next request: after a change that was drawn, while the page is hidden, and after a failure.
const SHORTEST = 500;
const HIDDEN = 10000;
const FAILED = 2000;
const CREATE = { queue: createQueue, plan: createPlan, history: createHistory, cluster: createCluster };

const panel = document.getElementById("view");
const tabs = [...document.querySelectorAll("[role=tab]")];
const views = {};
let current;
let revision;
let timer;

// Returns whether the view is that of the last revision now.
async function refresh() {
  const name = current;
  try {
    await views[name].view.refresh();
    return true;
  } catch (error) {
    if (name === current) {
      showState(error.message, true);
    }
    return false;
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
  // Only a problem is announced, not each change.
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

// Asks for the last revision: a page that is seen waits until there is another one than it shows.
async function follow() {
  timer = undefined;
  let pause = SHORTEST;
  try {
    const waits = revision !== undefined && !document.hidden;
    const next = JSON.parse(await get(query("/api/revision", waits ? { after: revision } : {})));
    showNotes(next.notes);
    if (next.problem) {
      showState(`The cluster cannot be read: ${next.problem}. Shown is its state of ${age(next.readAt)} ago.`, true);
    }
    if (next.revision !== revision) {
      const began = performance.now();
      if (await refresh()) {
        revision = next.revision;
        // A plan may take seconds: half of the time is left for other work.
        pause = Math.max(SHORTEST, performance.now() - began);
      } else {
        pause = FAILED;
      }
    }
    // The error of a view that was not drawn stays, so that it is announced once and not with each attempt.
    if (!next.problem && next.revision === revision) {
      showState(`Read at ${next.readAt.replace(/\.\d+/, "")}`, false);
    }
    pause = document.hidden ? Math.max(HIDDEN, pause) : pause;
  } catch (error) {
    pause = FAILED;
    showState(`The page is not served any more: ${error.message}. Run kubectl giveway ui again.`, true);
  }
  timer = setTimeout(follow, pause);
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
document.addEventListener("visibilitychange", () => {
  // The pause of a hidden page ends when it is seen.
  if (!document.hidden && timer !== undefined) {
    clearTimeout(timer);
    timer = undefined;
    follow();
  }
});
show();
follow();
