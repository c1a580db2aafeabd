// Shows times in the viewer's zone, lets a button wait for the words that confirm it, says when the console is away, and
// loads the scripts of charts and of live regions where a page has some.
"use strict";

const zone = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const assets = JSON.parse(document.querySelector('meta[name="assets"]').content);
const loaded = new Map();

function localize(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (!Number.isNaN(at.getTime()) && time.textContent !== zone.format(at)) {
      time.textContent = zone.format(at);
    }
  }
}

function guard(root) {
  for (const field of root.querySelectorAll("input[data-confirm]")) {
    const button = field.form.querySelector("button");
    const compare = () => { button.disabled = field.value.trim() !== field.dataset.confirm; };
    field.addEventListener("input", compare);
    compare();
  }
}

// Loads one of the files that only some pages need; once.
function load(name) {
  if (!loaded.has(name)) {
    loaded.set(name, new Promise((done, failed) => {
      const isStyle = name.endsWith(".css");
      const part = document.createElement(isStyle ? "link" : "script");
      Object.assign(part, isStyle ? { rel: "stylesheet", href: assets[name] } : { src: assets[name] });
      part.addEventListener("load", done);
      part.addEventListener("error", () => { loaded.delete(name); part.remove(); failed(new Error(`${name} did not load`)); });
      document.head.append(part);
    }));
  }
  return loaded.get(name);
}

async function drawCharts(root) {
  if (root.querySelector(".chart-plot[data-chart]")) {
    await Promise.all([load("uPlot.min.css"), load("uPlot.min.js")]);
    await load("charts.js");
    window.alcove.drawCharts(root);
  }
}

function prepare(root) {
  localize(root);
  guard(root);
  window.alcove.draw(root);
}

function setConnected(isConnected) {
  const note = document.getElementById("connection");
  if (note) {
    note.hidden = isConnected;
  }
}

window.alcove = { localize, draw: (root) => drawCharts(root).catch(() => setConnected(false)) };
prepare(document);
if (document.querySelector("[data-live]")) {
  load("live.js").catch(() => setConnected(false));
}
document.addEventListener("htmx:afterSwap", (event) => prepare(event.detail.target.isConnected ? event.detail.target : document));
document.addEventListener("htmx:sendError", () => setConnected(false));
document.addEventListener("htmx:responseError", () => setConnected(false));
document.addEventListener("htmx:afterOnLoad", () => setConnected(true));
