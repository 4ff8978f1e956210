// The view History: past preemptions, and the owners that were preempted most often.
import { el, labelled, options, pods, replace, since, svg, table, whenChanged, yaml } from "./dom.js";

const BARS = 48;

function concerns(row, namespace) {
  return namespace === "" || row.preemptor?.namespace === namespace || row.victims.some((victim) => victim.namespace === namespace);
}

// Draws the number of preemptions over time.
function chart(rows) {
  const times = rows.map((row) => Date.parse(row.plannedAt)).filter((time) => !Number.isNaN(time));
  if (times.length < 2) {
    return undefined;
  }
  const [first, last] = times.reduce(([low, high], time) => [Math.min(low, time), Math.max(high, time)], [Infinity, -Infinity]);
  const width = Math.max(1, last - first) / BARS;
  const counts = new Array(BARS).fill(0);
  for (const time of times) {
    counts[Math.min(BARS - 1, Math.floor((time - first) / width))] += 1;
  }
  const most = Math.max(...counts);
  const bars = counts.map((count, index) => svg("rect", { x: index * 20 + 1, width: 18, y: 90 - (count / most) * 80, height: (count / most) * 80 },
    svg("title", {}, `${new Date(first + index * width).toISOString()}: ${count}`)));
  const label = `${times.length} preemptions between ${new Date(first).toISOString()} and ${new Date(last).toISOString()}, at most ${most} in one bar`;
  const drawing = svg("svg", { class: "chart", role: "img", "aria-label": label, viewBox: `0 0 ${BARS * 20} 92`, preserveAspectRatio: "none" }, bars);
  return el("figure", {}, el("figcaption", { class: "quiet" }, `${label}.`), drawing);
}

function victims(row) {
  const names = row.victims.slice(0, 5).map((victim) => {
    const owner = victim.owner ? ` of ${victim.owner.kind}/${victim.owner.name}` : "";
    return el("div", {}, `${victim.kind.toLowerCase()}/${victim.namespace}/${victim.name}${owner} (${victim.priority})`);
  });
  return row.victims.length > 5 ? [...names, el("div", { class: "quiet" }, `and ${row.victims.length - 5} more`)] : names;
}

export function createHistory(root) {
  const namespace = el("select", { change: () => draw() });
  const priority = el("select", { change: () => draw() });
  const region = el("div", {});
  root.append(el("div", { class: "controls" }, labelled("Namespace", namespace), labelled("Class of the preemptor", priority)), region);
  let data = { items: [], owners: [], classes: [] };

  function draw() {
    const items = data.items.filter((row) => concerns(row, namespace.value) && (priority.value === "" || String(row.preemptor?.priority) === priority.value));
    const owners = data.owners.filter((owner) => namespace.value === "" || owner.namespace === namespace.value);
    const rows = items.map((row) => [
      since(row.plannedAt),
      row.preemptor ? `${row.preemptor.kind.toLowerCase()}/${row.preemptor.namespace}/${row.preemptor.name}` : `(${row.cause})`,
      row.preemptor?.priority ?? "-",
      pods(row.pods),
      victims(row),
      row.state,
      row.message,
      yaml("preemption", undefined, row.preemption, row.preemption),
    ]);
    replace(
      region,
      chart(items),
      table("Preemptions, the newest first", [["Age", true], "Preemptor", ["Priority", true], ["Evicted", true], "Victims", "State", "Message", "Object"],
        rows, "No preemption that is kept can be shown."),
      table("Victims by owner, the most frequent first", ["Namespace", "Owner", ["Preemptions", true], ["Pods", true], ["Last", true]],
        owners.map((owner) => [owner.namespace, owner.owner, owner.times, owner.pods, since(owner.last)]), "No owner was preempted."),
    );
  }

  const read = whenChanged((view) => {
    data = view;
    const spaces = data.items.flatMap((row) => [row.preemptor?.namespace, ...row.victims.map((victim) => victim.namespace)]);
    options(namespace, [["", "all"], ...[...new Set(spaces.filter(Boolean))].sort()]);
    options(priority, [["", "all"], ...data.classes.map((one) => [String(one.value), `${one.name} (${one.value})`])]);
    draw();
  });

  return { refresh: () => read("/api/history") };
}
