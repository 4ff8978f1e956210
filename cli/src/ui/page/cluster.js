// The view Cluster: capacity by resource, class and domain, critical add-ons, and the checks of the installation.
import { amount, el, labelled, options, post, query, replace, table, whenChanged } from "./dom.js";
import { drawMap } from "./map.js";

function usage(resource, row) {
  const levels = row.levels.map(([priority, used]) => el("div", {}, `priority ${priority}: ${amount(resource, used)}`));
  return [amount(resource, row.capacity), amount(resource, row.used), amount(resource, row.free), amount(resource, row.freeable), levels];
}

const USAGE = [["Capacity", true], ["Requested", true], ["Free", true], ["Could be freed", true], "Requested by priority"];

function findings(report) {
  const styles = { OK: "good", WARN: "warn", FAIL: "bad" };
  const rows = report.findings.map((finding) => [el("span", { class: styles[finding.status] }, finding.status), finding.check, finding.message, finding.remedy ?? ""]);
  return table("Checks of the installation", ["Status", "Check", "Finding", "What to do"], rows, "");
}

export function createCluster(root) {
  const priority = el("input", { type: "number", step: 1, size: 12, change: () => refresh() });
  const resource = el("select", { change: () => refresh() });
  const region = el("div", {});
  const checks = el("div", { "aria-live": "polite" });
  const button = el("button", { type: "button", click: async () => {
    button.disabled = true;
    replace(checks, el("p", { class: "quiet" }, "The checks run."));
    try {
      replace(checks, findings(JSON.parse(await post("/api/check", ""))));
    } catch (error) {
      replace(checks, el("p", { class: "bad", role: "alert" }, error.message));
    }
    button.disabled = false;
  } }, "Check the installation");
  root.append(
    el("div", { class: "controls" }, labelled("Could be freed for priority", priority), labelled("Resource of map and domains", resource), button),
    checks,
    region,
  );

  function draw(view) {
    const classes = view.classes.map((one) => [one.name, one.value, one.managed ? "Giveway" : one.preempts ? "kube-scheduler" : "never preempts", one.bound, one.pending]);
    const addons = view.addons.map((addon) => [addon.namespace, addon.name, addon.priority, addon.node ?? el("span", { class: "bad" }, "pending")]);
    const chosen = view.map?.resource ?? "";
    replace(
      region,
      table(`Capacity; what could be freed for priority ${view.priority} is at most that, because budgets are not counted`,
        ["Resource", ...USAGE], view.resources.map((row) => [row.name, ...usage(row.name, row)]), "No node is known."),
      el("h2", {}, "Nodes"),
      drawMap(view.map),
      table(`Topology domains, by ${chosen}`, ["Label", "Value", ["Nodes", true], ...USAGE],
        view.domains.map((row) => [row.key, row.value, row.nodes, ...usage(chosen, row)]), "No node has a label of a topology domain."),
      table("Priority classes", ["Class", ["Value", true], "Preempts", ["Pods with a node", true], ["Pods without", true]], classes, "No class is known."),
      table("Critical add-ons", ["Namespace", "Pod", ["Priority", true], "Node"], addons, "No critical add-on is known."),
    );
  }

  const read = whenChanged((view) => {
    options(resource, [["", "the scarcest"], ...view.resources.map((row) => row.name)]);
    priority.setAttribute("placeholder", view.priority);
    draw(view);
  });

  function refresh() {
    return read(query("/api/cluster", { priority: priority.value, resource: resource.value }));
  }

  return { refresh };
}
