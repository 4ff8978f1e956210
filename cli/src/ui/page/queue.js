// The view Queue: what is pending, in the operator's order.
import { el, labelled, options, planLink, pods, replace, since, table, whenChanged, yaml } from "./dom.js";

export function createQueue(root) {
  const priority = el("select", { change: () => draw() });
  const namespace = el("select", { change: () => draw() });
  const region = el("div", {});
  root.append(el("div", { class: "controls" }, labelled("Priority", priority), labelled("Namespace", namespace)), region);
  let data = { rows: [], levels: [], empty: "" };

  function draw() {
    const shown = data.rows.filter(
      (row) => (priority.value === "" || String(row.priority) === priority.value) && (namespace.value === "" || row.namespace === namespace.value),
    );
    const rows = shown.map((row) => [
      row.position,
      planLink(row.kind, row.namespace, row.name),
      row.namespace,
      row.class ? `${row.priority} (${row.class})` : row.priority,
      `${row.bound}/${row.total}`,
      row.state,
      row.waitsFor,
      since(row.since),
      yaml(row.kind, row.namespace, row.name, "YAML"),
    ]);
    const columns = [["Position", true], "Name", "Namespace", ["Priority", true], ["Pods", true], "State", "Waits for", ["Since", true], "Object"];
    replace(region, table("Pending groups and pods, in the order of decisions", columns, rows, data.empty));
  }

  const read = whenChanged((view) => {
    data = view;
    const levels = data.levels.map((level) => [String(level.priority), `${level.priority}: ${level.pending} pending, ${pods(level.pods)}`]);
    options(priority, [["", `all: ${data.rows.length} pending`], ...levels]);
    options(namespace, [["", "all"], ...[...new Set(data.rows.map((row) => row.namespace))].sort()]);
    draw();
  });

  return { refresh: () => read("/api/queue") };
}
