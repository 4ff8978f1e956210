// The map of nodes: each cell is a node or domain, filled from the bottom with what pods of each priority use, the highest at the bottom.
import { el, plain, svg } from "./dom.js";

const COLOURS = 8;

// Returns the class of each priority: the lowest is p0.
function colours(map) {
  const priorities = [...new Set(map.cells.flatMap((cell) => cell.levels.map(([priority]) => priority)))].sort((a, b) => a - b);
  const step = priorities.length <= COLOURS ? 1 : COLOURS / priorities.length;
  return new Map(priorities.map((priority, rank) => [priority, `p${Math.min(COLOURS - 1, Math.floor(rank * step))}`]));
}

function describe(cell, by) {
  const parts = cell.levels.map(([priority, share]) => `priority ${priority}: ${Math.round(share / 10)} %`);
  const count = by === "node" ? "" : ` (${cell.nodes} nodes)`;
  const marks = [
    cell.cordoned > 0 ? (cell.nodes === 1 ? "cordoned" : `${cell.cordoned} cordoned`) : undefined,
    cell.placed > 0 ? `${cell.placed} placed` : undefined,
    cell.victims > 0 ? `${cell.victims} victims` : undefined,
  ].filter(Boolean);
  return `${cell.name}${count}: ${[...marks, ...(parts.length > 0 ? parts : ["unused"])].join(", ")}`;
}

// Returns the outlines of all cells, put together by class: a path for each class is drawn much faster than an element for each cell.
function outlines(cells, classes, size, place) {
  const paths = new Map(["empty", "cordoned", ...classes.values(), "placed", "victims"].map((name) => [name, []]));
  const add = (name, x, y, width, height) => paths.get(name).push(`M${x} ${y}h${width}v${height}h${-width}z`);
  cells.forEach((cell, index) => {
    const { x, y } = place(index);
    add(cell.cordoned === cell.nodes ? "cordoned" : "empty", x, y, size.width, size.height);
    let bottom = size.height;
    for (const [priority, share] of cell.levels) {
      const height = Math.min(bottom, Math.round((share / 100) * size.height) / 10);
      bottom -= height;
      if (height > 0) {
        add(classes.get(priority), x, y + bottom, size.width, height);
      }
    }
    if (cell.placed > 0) {
      add("placed", x, y, size.width, size.height);
    }
    if (cell.victims > 0) {
      add("victims", x + 3, y + 3, size.width - 6, size.height - 6);
    }
  });
  return [...paths].map(([name, parts]) => svg("path", { class: name, d: parts.join("") }));
}

function key(className, text) {
  const sample = svg("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, svg("rect", { x: 1, y: 1, width: 8, height: 8, class: className }));
  return el("li", {}, sample, text);
}

// Creates the map with its legend.
export function drawMap(map) {
  if (!map || map.cells.length === 0) {
    return el("p", { class: "quiet" }, "No node is known.");
  }
  const named = map.cells.length <= 60;
  const size = named ? { width: 100, height: 60 } : { width: 18, height: 18 };
  const pitch = named ? { x: 112, y: 82 } : { x: 22, y: 22 };
  const columns = Math.max(1, Math.floor(1100 / pitch.x));
  const rows = Math.ceil(map.cells.length / columns);
  const classes = colours(map);
  const place = (index) => ({ x: 2 + (index % columns) * pitch.x, y: 2 + Math.floor(index / columns) * pitch.y });
  const short = (name) => (name.length > 16 ? `${name.slice(0, 15)}…` : name);
  const names = named ? map.cells.map((cell, index) => {
    const { x, y } = place(index);
    return svg("text", { x, y: y + size.height + 12 }, short(cell.name));
  }) : [];
  const count = (name) => map.cells.filter((cell) => cell[name] > 0).length;
  const unit = map.by === "node" ? "nodes" : `cells (by ${map.by === "nodes" ? "runs of nodes" : map.by})`;
  const label = `${map.cells.length} ${unit} by requests of ${map.resource}; ${count("placed")} with placements, ${count("victims")} with victims`;
  const details = el("p", { class: "quiet", "aria-hidden": "true" }, "Point at a cell to see what uses it.");
  const drawing = svg("svg", { class: "map", role: "img", "aria-label": label, viewBox: `0 0 ${columns * pitch.x} ${rows * pitch.y}`, pointermove: (event) => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(drawing.getScreenCTM().inverse());
    const cell = map.cells[Math.floor(at.x / pitch.x) + Math.floor(at.y / pitch.y) * columns];
    if (cell) {
      details.textContent = plain(describe(cell, map.by));
    }
  } }, outlines(map.cells, classes, size, place), names);
  const legend = [...classes].reverse().map(([priority, name]) => key(name, `priority ${priority}`));
  legend.push(key("empty", "free"), key("cordoned", "cordoned"), key("placed", "placements"), key("victims", "victims"));
  return el("figure", {}, el("figcaption", { class: "quiet" }, `${label}.`), el("ul", { class: "legend" }, legend), drawing, details);
}
