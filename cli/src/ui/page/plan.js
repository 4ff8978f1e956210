// The view Plan: what is or would be done for a pending group or pod, or for a pasted manifest.
import { el, get, labelled, list, options, pods, post, query, replace, since, table, yaml } from "./dom.js";
import { drawMap } from "./map.js";

const VICTIMS = ["Victim", ["Priority", true], "Owner", "Its group or owner loses", "Nodes", "Budget", "Why"];

function loss(victim) {
  const { pods: lost, of, unit } = victim.loses;
  const whole = victim.kind === "PodGroup" ? " (whole group)" : "";
  return unit || whole ? `${lost} of ${pods(of)}${unit ? ` of ${unit}` : ""}${whole}` : "the pod";
}

function victimRows(victims) {
  return victims.map((victim) => [
    `${victim.kind.toLowerCase()}/${victim.namespace}/${victim.name}`,
    victim.priority,
    victim.owner ?? "-",
    victim.loses ? loss(victim) : pods(victim.pods.length),
    (victim.nodes ?? [...new Set(victim.pods.map((pod) => pod.node))]).join(", "),
    victim.violatesBudget ? "violated" : "kept",
    victim.why ?? "-",
  ]);
}

// The criteria by which plans are compared, in their order.
function criteria(cost) {
  const priority = cost.highestVictimPriority ?? "none";
  const rows = [
    ["Violated budgets (pods)", cost.budgetViolations],
    ["Highest priority of a victim", priority],
    ["Evicted pods", cost.victimPods],
    ["Whole groups", cost.victimGroups],
  ];
  return table("Cost: plans are compared by these criteria, in this order", ["Criterion", ["Value", true]], rows, "");
}

function placements(entries) {
  const nodes = new Map();
  for (const { pod, node } of entries) {
    nodes.set(node, [...(nodes.get(node) ?? []), pod]);
  }
  const rows = [...nodes].sort().map(([node, names]) => [node, names.length, names.join(", ")]);
  return table("Placements", ["Node", ["Pods", true], "Placed"], rows, "No pod is placed.");
}

function answerParts(answer) {
  const style = answer.schedulable ? (answer.preemptionNeeded ? "warn" : "good") : "bad";
  const reason = answer.reason ? `${answer.reason}: ` : "";
  const others = answer.notEvicted.map((unit) => [`${unit.kind.toLowerCase()}/${unit.namespace}/${unit.name}`, unit.priority, unit.why]);
  return [
    el("p", { class: `lead ${style}` }, `${reason}${answer.message}`),
    answer.victims.length > 0 ? table("Victims", VICTIMS, victimRows(answer.victims), "") : undefined,
    answer.victims.length > 0 ? criteria(answer.cost) : undefined,
    answer.placements.length > 0 ? placements(answer.placements) : undefined,
    others.length > 0 ? table("Not evicted, although of lower priority and on these nodes", ["Unit", ["Priority", true], "Why"], others, "") : undefined,
    ...list("How the plan was found: alternatives and bound", answer.trace, true),
    ...list("Waits for these pods, which terminate anyway", answer.awaited),
    ...list("Left to kube-scheduler", answer.notModeled),
    ...list("Notes", answer.notes),
  ];
}

function storedParts(stored) {
  const made = stored.plannedAt ? [", made ", since(stored.plannedAt), " ago"] : [];
  return [
    el("h2", {}, stored.inFlight ? "Plan in progress" : "Last plan"),
    el("p", { class: "lead" }, `${stored.state}: ${stored.message}`),
    el("p", { class: "quiet" }, yaml("preemption", undefined, stored.id, `Preemption ${stored.id}`), ` (${stored.strategy})`, made, `. ${stored.reason}`),
    table("Victims of this plan", VICTIMS, victimRows(stored.victims), "It evicts no pod."),
    criteria(stored.cost),
    placements(stored.placements),
  ];
}

export function createPlan(root) {
  let subject;
  let pasted;
  let text;
  const region = el("div", { "aria-live": "polite" });
  const pending = el("select", { change: () => {
    if (pending.value !== "") {
      location.hash = `#plan/${pending.value}`;
    }
  } });
  const resource = el("select", { change: () => { text = undefined; refresh(); } });
  const manifest = el("textarea", { spellcheck: "false", "aria-label": "Manifest" });
  const namespace = el("input", { type: "text", size: 20, autocomplete: "off" });
  const button = el("button", { type: "button", click: () => {
    pasted = manifest.value;
    text = undefined;
    refresh();
  } }, "Plan this manifest");
  const back = el("button", { type: "button", click: () => {
    pasted = undefined;
    text = undefined;
    refresh();
  } }, "Back to what is pending");
  root.append(
    el("div", { class: "controls" }, labelled("Pending", pending), labelled("Resource of the map", resource)),
    el("details", {},
      el("summary", {}, "What if: plan a manifest that is not submitted"),
      el("p", { class: "quiet" }, "Pods, anything with a pod template, PodGroups and Workloads. Nothing is written to the cluster."),
      manifest,
      el("div", { class: "controls" }, labelled("Namespace", namespace), button, back)),
    region,
  );

  async function load() {
    if (pasted !== undefined) {
      return post(query("/api/plan", { namespace: namespace.value.trim(), resource: resource.value }), pasted);
    }
    return subject ? get(query("/api/plan", { ...subject, resource: resource.value })) : undefined;
  }

  function draw(view) {
    if (!view) {
      replace(region, el("p", { class: "quiet" }, "Choose a pending group or pod, or paste a manifest."));
      return;
    }
    replace(
      region,
      el("h2", {}, view.preemptor || "Manifest"),
      view.hidden ? el("p", { class: "warn" }, view.hidden) : undefined,
      drawMap(view.map),
      ...(view.stored?.inFlight ? storedParts(view.stored) : []),
      ...(view.answer ? [el("h2", {}, pasted === undefined ? "If it were decided now" : "If it were submitted now"), ...answerParts(view.answer)] : []),
      ...list("What would change it", view.changes),
      ...(view.stored && !view.stored.inFlight ? storedParts(view.stored) : []),
    );
  }

  // Of several requests only the last one is drawn.
  let latest = 0;
  async function refresh() {
    const number = ++latest;
    try {
      const [queue, next] = await Promise.all([get("/api/queue"), load()]);
      if (number !== latest) {
        return;
      }
      const entry = (row) => [`${row.kind}/${row.namespace}/${row.name}`, `${row.position}. ${row.kind}/${row.namespace}/${row.name} (${row.priority})`];
      options(pending, [["", "choose"], ...JSON.parse(queue).rows.map(entry)]);
      pending.value = subject && pasted === undefined ? `${subject.kind}/${subject.namespace}/${subject.name}` : "";
      if (next !== text || next === undefined) {
        text = next;
        const view = next === undefined ? undefined : JSON.parse(next);
        options(resource, [["", "the scarcest"], ...(view?.map?.resources ?? [])]);
        draw(view);
      }
    } catch (error) {
      if (number === latest) {
        text = undefined;
        replace(region, el("p", { class: "bad", role: "alert" }, error.message));
      }
    }
  }

  return {
    refresh,
    // Shows the plan of a group or pod: kind, namespace and name.
    select([kind, space, name]) {
      if (name !== undefined) {
        [subject, pasted, text] = [{ kind, namespace: space, name }, undefined, undefined];
      }
    },
  };
}
