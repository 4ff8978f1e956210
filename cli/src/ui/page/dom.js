// Elements, requests and formats. Every text goes through textContent, so no name or message can become markup.

const SVG = "http://www.w3.org/2000/svg";

// Control characters, and those that change the direction of the text after them.
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

// Returns a text in which characters that would change how it reads are visible.
export function plain(text) {
  return String(text).replace(CONTROLS, "\ufffd");
}

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") {
      element.addEventListener(name, value);
    } else if (value !== undefined && value !== null && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  for (const child of children.flat()) {
    if (child !== undefined && child !== null) {
      element.append(child instanceof Node ? child : plain(child));
    }
  }
  return element;
}

// Creates an element. An attribute whose value is a function is a listener.
export function el(name, attributes, ...children) {
  return build(document.createElement(name), attributes, children);
}

// Creates an element of SVG.
export function svg(name, attributes, ...children) {
  return build(document.createElementNS(SVG, name), attributes, children);
}

// Replaces the content of a region, and keeps the focus on the element with the same data-key.
export function replace(region, ...children) {
  const key = region.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  region.replaceChildren(...children.flat().filter((child) => child !== undefined && child !== null));
  if (key !== undefined) {
    [...region.querySelectorAll("[data-key]")].find((element) => element.dataset.key === key)?.focus();
  }
}

// Captions of the tables of which all rows are shown, also when they are drawn again.
const whole = new Set();

// Creates a table. A column is a heading, or a heading with true for numbers. Only the first rows are shown until a button is pressed.
export function table(caption, columns, rows, empty) {
  const most = whole.has(caption) ? rows.length : 400;
  const heads = columns.map((column) => (Array.isArray(column) ? column : [column, false]));
  const cells = (row) => row.map((cell, index) => el("td", { class: heads[index][1] ? "number" : undefined }, cell));
  const body = el("tbody", {}, rows.slice(0, most).map((row) => el("tr", {}, cells(row))));
  if (rows.length === 0) {
    body.append(el("tr", {}, el("td", { colspan: heads.length, class: "quiet" }, empty)));
  }
  const head = el("tr", {}, heads.map(([text, number]) => el("th", { scope: "col", class: number ? "number" : undefined }, text)));
  const element = el("div", { class: "scroll" }, el("table", {}, el("caption", {}, caption), el("thead", {}, head), body));
  if (rows.length > most) {
    const more = el("button", { type: "button", "data-key": `more ${caption}`, click: () => {
      whole.add(caption);
      body.append(...rows.slice(most).map((row) => el("tr", {}, cells(row))));
      more.remove();
    } }, `Show all ${rows.length} rows`);
    element.append(more);
  }
  return element;
}

// Creates a list of sentences under a heading; nothing without sentences.
export function list(heading, sentences, ordered = false) {
  if (!sentences || sentences.length === 0) {
    return [];
  }
  return [el("h2", {}, heading), el(ordered ? "ol" : "ul", {}, sentences.map((sentence) => el("li", {}, sentence)))];
}

// Creates a control with its label.
export function labelled(text, control) {
  return el("label", {}, text, control);
}

// Replaces the options of a select and keeps what is selected. An option is its value, or value and text.
export function options(select, entries) {
  const value = select.value;
  const wanted = entries.map((entry) => (Array.isArray(entry) ? entry : [entry, entry]));
  const have = [...select.options].map((option) => [option.value, option.textContent]);
  if (JSON.stringify(have) !== JSON.stringify(wanted)) {
    select.replaceChildren(...wanted.map(([name, text]) => el("option", { value: name }, text)));
    if (wanted.some(([name]) => name === value)) {
      select.value = value;
    }
  }
}

// Sends a request, and returns the text of the answer. What the server says about a failure is the message of the error.
async function send(path, request) {
  const response = await fetch(path, { credentials: "same-origin", cache: "no-store", redirect: "error", ...request });
  const text = await response.text();
  if (!response.ok) {
    throw new Error(text || `status ${response.status}`);
  }
  return text;
}

export function get(path) {
  return send(path, { method: "GET" });
}

// Returns a function that reads a view from a path, and shows it if it differs from the last one. The browser's tools show how long it took.
export function whenChanged(show) {
  let last;
  return async (path) => {
    const next = await get(path);
    if (next !== last) {
      last = next;
      const start = performance.now();
      show(JSON.parse(next));
      performance.clearMeasures("redraw");
      performance.measure("redraw", { start });
    }
  };
}

export function post(path, body) {
  return send(path, { method: "POST", body });
}

// Returns the path with the parameters that have a value. Names of Kubernetes need no encoding.
export function query(path, parameters) {
  const set = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return set.length === 0 ? path : `${path}?${set.map(([name, value]) => `${name}=${value}`).join("&")}`;
}

// Creates a link to the YAML of an object.
export function yaml(kind, namespace, name, text) {
  return el("a", { href: query("/api/object", { kind, namespace, name }), target: "_blank", rel: "noopener", "data-key": `yaml ${kind} ${namespace} ${name}` }, text);
}

// Creates a link to the plan of a group or pod.
export function planLink(kind, namespace, name) {
  return el("a", { href: `#plan/${kind}/${namespace}/${name}`, "data-key": `plan ${kind} ${namespace} ${name}` }, `${kind}/${name}`);
}

// Returns an age as kubectl prints it.
export function age(time) {
  if (!time) {
    return "-";
  }
  const seconds = Math.max(0, Math.round((Date.now() - Date.parse(time)) / 1000));
  if (seconds < 120) {
    return `${seconds}s`;
  }
  if (seconds < 7200) {
    return `${Math.floor(seconds / 60)}m`;
  }
  return seconds < 172800 ? `${Math.floor(seconds / 3600)}h` : `${Math.floor(seconds / 86400)}d`;
}

// Creates an age whose title is the time.
export function since(time) {
  return time ? el("time", { datetime: time, title: time }, age(time)) : "-";
}

// Returns an amount in the scheduler's unit as text: CPUs in thousandths, memory in bytes.
export function amount(resource, value) {
  const number = (count) => count.toLocaleString("en", { maximumFractionDigits: 1 });
  if (resource === "cpu") {
    return number(value / 1000);
  }
  if (resource === "memory" || resource === "ephemeral-storage" || resource.startsWith("hugepages-")) {
    return `${number(value / 2 ** 30)} GiB`;
  }
  return number(value);
}

export function pods(count) {
  return count === 1 ? "1 pod" : `${count} pods`;
}
