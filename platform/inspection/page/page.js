"use strict";
// Draws what the JSON block says.  Everything of it becomes text nodes and numbers, never markup.
(() => {
  const facts = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const hasTimes = "profile" in facts;

  // -- words ------------------------------------------------------------------------------------------------------

  const bytes = (n) => n >= 1048576 ? (n / 1048576).toFixed(2) + " MiB" : n >= 1024 ? (n / 1024).toFixed(1) + " KiB" : n + " B";
  const micros = (t) => t >= 1000 ? (t / 1000).toFixed(2) + " ms" : t.toFixed(2) + " µs";
  const percent = (x) => (100 * x).toFixed(1) + " %";
  const shape = (tensor) => tensor.dtype + "[" + tensor.shape.join(",") + "]";
  // One colour for one word, the same on every page.
  const hue = (word) => {
    let hash = 2166136261;
    for (const letter of word) hash = Math.imul(hash ^ letter.codePointAt(0), 16777619) >>> 0;
    return hash % 360;
  };
  const colour = (word) => `hsl(${hue(word)} 55% 55%)`;

  // -- elements ---------------------------------------------------------------------------------------------------

  const html = (name, text, parent) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  };
  const svg = (name, attributes, parent) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (parent) parent.append(made);
    return made;
  };
  const label = (text, x, y, parent, kind) => {
    svg("text", kind ? { x, y, class: kind } : { x, y }, parent).textContent = text;
  };
  const fitted = (text, most) => text.length > most ? text.slice(0, most - 1) + "…" : text;

  // -- what is pointed at -----------------------------------------------------------------------------------------

  const tip = byId("tip");
  const marked = new Map(); // of an operator: its elements everywhere
  const belongs = (element, index) => {
    if (!marked.has(index)) marked.set(index, []);
    marked.get(index).push(element);
  };
  const mark = (indices, isOn) => indices.forEach((i) => (marked.get(i) || []).forEach((e) => e.classList.toggle("marked", isOn)));
  const tells = (element, text, indices = []) => {
    element.addEventListener("pointerenter", () => { tip.textContent = text; tip.hidden = false; mark(indices, true); });
    element.addEventListener("pointerleave", () => { tip.hidden = true; mark(indices, false); });
    element.addEventListener("pointermove", (at) => {
      tip.style.left = Math.max(4, Math.min(at.clientX + 14, innerWidth - tip.offsetWidth - 8)) + "px";
      tip.style.top = Math.max(4, Math.min(at.clientY + 16, innerHeight - tip.offsetHeight - 8)) + "px";
    });
  };
  const summary = (op) => {
    const lines = [`${op.index}: ${op.op}`, `line ${op.source || "unknown"}`];
    if (op.module && op.module !== op.source) lines.push(`module ${op.module}`);
    if (op.parts.length > 1) lines.push("fused: " + op.parts.join(" + "));
    lines.push(`${op.takes || "nothing"} → ${op.gives}`);
    lines.push(`weights ${bytes(op.weight_bytes)}, other bytes ${bytes(op.activation_bytes)}`);
    if (op.flops) lines.push(`${(op.flops / 1e6).toFixed(3)} MFLOP`);
    if (hasTimes) lines.push(`${micros(op.time_us)}, ${percent(op.share)} of the run; ${percent(op.roofline)} of the limit` + (op.bound ? ` (${op.bound})` : ""));
    return lines.join("\n");
  };

  // -- tables that sort -------------------------------------------------------------------------------------------

  // columns: [title, value of a row to sort by, text of it, whether it is a number]
  const table = (place, columns, rows, dress) => {
    const head = html("tr", undefined, html("thead", undefined, place));
    const body = html("tbody", undefined, place);
    const lines = rows.map((row) => {
      const line = html("tr", undefined, body);
      for (const [, , text, isNumber] of columns) {
        const cell = html("td", undefined, line);
        if (isNumber) cell.className = "number";
        cell.append(text(row));
      }
      if (dress) dress(line, row);
      return [row, line];
    });
    columns.forEach(([title, value, , isNumber], at) => {
      const cell = html("th", undefined, head);
      cell.scope = "col";
      if (isNumber) cell.className = "number";
      const button = html("button", title, cell);
      button.type = "button";
      button.addEventListener("click", () => {
        const isDown = cell.ariaSort ? cell.ariaSort === "ascending" : isNumber && at > 0;
        for (const other of head.children) other.removeAttribute("aria-sort");
        cell.setAttribute("aria-sort", isDown ? "descending" : "ascending");
        const sign = isDown ? -1 : 1;
        lines.sort(([a], [b]) => {
          const [x, y] = [value(a), value(b)];
          return sign * (typeof x === "number" ? x - y : x < y ? -1 : x > y ? 1 : 0);
        });
        body.append(...lines.map(([, line]) => line));
      });
    });
  };
  const bar = (share) => {
    const made = html("span");
    made.className = "bar";
    made.style.width = Math.max(1, 90 * share) + "px";
    return made;
  };

  // -- the page ---------------------------------------------------------------------------------------------------

  const ops = facts.ops;
  document.title = facts.file + " – alcove";
  byId("title").textContent = facts.file;
  byId("summary").textContent = `${bytes(facts.size_bytes)}, ${ops.length} operators, weights ${bytes(facts.weights_bytes)}; a session takes at most ${bytes(facts.memory_ceiling_bytes)}` +
    (hasTimes ? `; ${micros(facts.profile.call_us)} a call, ${micros(facts.profile.ops_us)} in operators (${facts.profile.isa}, ${facts.profile.threads} thread${facts.profile.threads > 1 ? "s" : ""}, median of ${facts.profile.runs} runs)` : "");

  table(byId("ports"), [
    ["direction", (p) => p.direction, (p) => p.direction],
    ["name", (p) => p.name, (p) => p.name],
    ["type", (p) => p.dtype, (p) => p.dtype],
    ["shape", (p) => p.dims.join(" × "), (p) => (p.is_ragged ? "at most " : "") + (p.dims.join(" × ") || "–")],
    ["labels", (p) => p.labels, (p) => p.labels || "", true],
  ], facts.ports);
  const promises = byId("promises");
  const says = (term, text) => { if (text) { html("dt", term, promises); html("dd", text, promises); } };
  const proof = facts.certificate;
  says("SHA-256", facts.digest);
  says("format", facts.format);
  says("sizes", facts.sizes.map((s) => `${s.name} ${s.min} to ${s.max}`).join(", ") + (facts.sizes.length ? hasTimes ? "; shown at those of the profile" : "; shown at the greatest" : ""));
  says("kept from run to run", facts.states.join(", "));
  says("certificate", !proof ? "none" : proof.problem ? "malformed: " + proof.problem
    : `${proof.samples} samples (${proof.licence}), ${proof.tolerance}: native within ${proof.bound} of torch; from ${proof.sources.join(", ")}`);
  says("model", facts.provenance.model_files.join(", "));
  const pack = facts.provenance.package;
  if (pack) {
    says("package", `${pack.feature} ${pack.version}, variant ${pack.variant}`);
    for (const [name, value] of Object.entries(pack.lineage || {})) says(name.replaceAll("_", " "), value);
  }

  // The graph: rows downwards.
  const BOX = { width: 220, gapX: 26, gapY: 30, line: 16 };
  const heightOf = (op) => 26 + BOX.line * (1 + (op.parts.length > 1 ? op.parts.length : 0));
  const graph = facts.graph;
  const rowHeight = new Array(graph.rows).fill(0);
  graph.nodes.forEach(([row], i) => { rowHeight[row] = Math.max(rowHeight[row], heightOf(ops[i])); });
  const rowTop = [];
  let top = 14;
  for (const height of rowHeight) { rowTop.push(top); top += height + BOX.gapY; }
  const place = (i) => {
    const [row, column] = graph.nodes[i];
    return { x: 14 + column * (BOX.width + BOX.gapX), y: rowTop[row], height: heightOf(ops[i]) };
  };
  const picture = byId("graph-picture");
  picture.setAttribute("width", 28 + Math.max(1, graph.columns) * (BOX.width + BOX.gapX));
  picture.setAttribute("height", top + 10);
  const tensors = new Map(facts.plan.map((tensor) => [tensor.tensor, tensor]));
  for (const [from, to, tensor] of graph.edges) {
    const [a, b] = [place(from), place(to)];
    // One that passes rows leaves and arrives at the side, so that no box hides it.
    const isLong = graph.nodes[to][0] - graph.nodes[from][0] > 1;
    const [x, y, u, v] = isLong
      ? [a.x + BOX.width, a.y + a.height / 2, b.x + BOX.width, b.y + b.height / 2]
      : [a.x + BOX.width / 2, a.y + a.height, b.x + BOX.width / 2, b.y];
    const bend = isLong ? BOX.gapX - 4 : Math.min(60, (v - y) / 2);
    const d = isLong ? `M${x} ${y}C${x + bend} ${y + 40} ${u + bend} ${v - 40} ${u} ${v}` : `M${x} ${y}C${x} ${y + bend} ${u} ${v - bend} ${u} ${v}`;
    const edge = svg("path", { class: "edge", d }, picture);
    belongs(edge, from);
    const of = tensors.get(tensor);
    tells(edge, of ? `${of.name}\n${shape(of)}, ${bytes(of.size_bytes)}\nfrom ${from} to ${to}` : `from ${from} to ${to}`, []);
  }
  const slowest = hasTimes ? Math.max(...ops.map((op) => op.share), 1e-9) : 1;
  ops.forEach((op, i) => {
    const at = place(i);
    const node = svg("g", { class: "node", "data-op": i, transform: `translate(${at.x} ${at.y})` }, picture);
    svg("rect", { class: "box", width: BOX.width, height: at.height, rx: 5 }, node);
    svg("rect", { width: 6, height: at.height, rx: 3, fill: colour(op.module || op.op) }, node);
    if (hasTimes) svg("rect", { x: 6, y: at.height - 4, height: 4, width: (BOX.width - 6) * op.share / slowest, fill: "#d9480f" }, node);
    label(fitted(`${i}  ${op.parts.length > 1 || op.parts[0] === op.op ? op.op : op.parts[0].startsWith(op.op) ? op.parts[0] : op.op + " " + op.parts[0]}`, 32), 14, 17, node);
    let y = 17;
    if (op.parts.length > 1) for (const part of op.parts) label("· " + part, 22, y += BOX.line, node, "small");
    label(fitted(op.gives, 34), 14, y + BOX.line, node, "small");
    belongs(node, i);
    tells(node, summary(op), [i]);
  });

  // The memory plan: offset upwards from the bottom line, steps to the right.
  const plan = facts.plan.filter((tensor) => tensor.size_bytes > 0);
  const steps = ops.length + 2; // before the first, and after the last
  const wide = Math.max(5, Math.min(40, 1240 / steps));
  const AREA = { left: 70, top: 10, height: 380 };
  const memory = byId("memory-picture");
  memory.setAttribute("width", AREA.left + steps * wide + 20);
  memory.setAttribute("height", AREA.top + AREA.height + 34);
  const arena = Math.max(1, facts.arena_bytes);
  const level = (offset) => AREA.top + AREA.height * (1 - offset / arena);
  const left = (step) => AREA.left + (step + 1) * wide;
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const y = level(arena * share);
    svg("line", { class: "axis", x1: AREA.left, x2: AREA.left + steps * wide, y1: y, y2: y }, memory);
    label(bytes(Math.round(arena * share)), 4, y + 4, memory, "small");
  }
  for (let step = 0; step < ops.length; step += Math.max(1, Math.ceil(ops.length / 30))) label(String(step), left(step), AREA.top + AREA.height + 16, memory, "small");
  for (const tensor of plan) {
    const high = Math.max(1, AREA.height * tensor.size_bytes / arena);
    const box = svg("rect", { class: "life", x: left(tensor.first), width: (tensor.last - tensor.first + 1) * wide, y: level(tensor.offset + tensor.size_bytes), height: high, fill: colour(tensor.name) }, memory);
    const writer = ops[tensor.first];
    if (writer) belongs(box, tensor.first);
    tells(box, [tensor.name, `${shape(tensor)}, ${bytes(tensor.size_bytes)} at ${tensor.offset}`,
      writer ? `written by ${writer.index}: ${writer.op}, line ${writer.source || "unknown"}` : "input",
      tensor.last >= ops.length ? "kept to the end" : `last read by ${tensor.last}: ${(ops[tensor.last] || { op: "nothing" }).op}`].join("\n"), writer ? [tensor.first] : []);
  }

  const number = (value) => value.toLocaleString("en");
  table(byId("operator-table"), [
    ["#", (op) => op.index, (op) => String(op.index), true],
    ["operator", (op) => op.op, (op) => op.parts.length > 1 ? `${op.op} (${op.parts.join(" + ")})` : op.parts[0] === op.op ? op.op : `${op.op} ${op.parts[0].replace(op.op + " ", "")}`],
    ["line", (op) => op.source, (op) => op.source],
    ["module", (op) => op.module, (op) => op.module === op.source ? "" : op.module],
    ["gives", (op) => op.gives, (op) => op.gives],
    ["weights", (op) => op.weight_bytes, (op) => op.weight_bytes ? number(op.weight_bytes) : "", true],
    ["other bytes", (op) => op.activation_bytes, (op) => number(op.activation_bytes), true],
    ["MFLOP", (op) => op.flops, (op) => op.flops ? (op.flops / 1e6).toFixed(3) : "", true],
    ...(hasTimes ? [
      ["time", (op) => op.time_us, (op) => micros(op.time_us), true],
      ["share", (op) => op.share, (op) => bar(op.share / slowest)],
      ["of limit", (op) => op.roofline, (op) => op.bound ? percent(op.roofline) : "", true],
    ] : []),
  ], ops, (line, op) => { line.dataset.op = op.index; belongs(line, op.index); tells(line, summary(op), [op.index]); });

  const heaviest = Math.max(1, ...facts.weights.map((weight) => weight.size_bytes));
  table(byId("weight-table"), [
    ["name", (w) => w.name, (w) => w.name],
    ["type", (w) => w.dtype, (w) => w.dtype + (w.layout === "row_major" ? "" : ", " + w.layout)],
    ["shape", (w) => w.shape.join(" × "), (w) => w.shape.join(" × ") || "–"],
    ["bytes", (w) => w.size_bytes, (w) => number(w.size_bytes), true],
    ["relative size", (w) => w.size_bytes, (w) => bar(w.size_bytes / heaviest)],
    ["read by", (w) => w.ops[0] ?? -1, (w) => w.ops.map((i) => `${i} ${ops[i].op}`).join(", ")],
  ], facts.weights, (line, weight) => tells(line, weight.name, weight.ops));
  document.body.dataset.isDrawn = "yes";
})();
