// Shows times in the viewer's zone, lets a button wait for the words that confirm it, and says when the console is away.
"use strict";

const zone = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

function localize(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (!Number.isNaN(at.getTime())) {
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

function prepare(root) {
  localize(root);
  guard(root);
}

function setConnected(isConnected) {
  const note = document.getElementById("connection");
  if (note) {
    note.hidden = isConnected;
  }
}

prepare(document);
document.addEventListener("htmx:afterSwap", (event) => prepare(event.detail.target.isConnected ? event.detail.target : document));
document.addEventListener("htmx:sendError", () => setConnected(false));
document.addEventListener("htmx:responseError", () => setConnected(false));
document.addEventListener("htmx:afterOnLoad", () => setConnected(true));
