// Keeps [data-live] regions as the server has them: listens for "changed", loads the page again, and changes in place what
// differs. fetch reads the events, since EventSource shows neither the status of a refusal nor that a stream went silent.
"use strict";

(() => {
  const SILENT_MS = 40000;  // heartbeats come each 15 s
  const HIDDEN_MS = 60000;  // a page that nobody sees for so long gives its place to others
  const SPREAD_MS = 1000;  // so that a hundred viewers do not load at once
  const ANNOUNCE_MS = 30000;  // between two announcements that only say "updated"
  const WAITS_MS = [1000, 2000, 5000, 10000, 30000, 60000];
  const WORDS = {
    live: "Live",
    again: "Live again",
    lost: "Not live: the console does not answer; trying again",
    unavailable: "Not live: the server does not answer; trying again",
    full: "Not live: too many pages are; trying again",
    gave_way: "Not live: newer pages of yours are; this one goes on when you come back to it",
    signed_out: "Not live: signed out. Load the page to sign in again",
    gone: "Not live: there is nothing at this address any more. Load the page again",
    ended: "Ended: nothing changes here any more",
  };
  const FINAL = ["signed_out", "gone", "ended"];
  const PATIENT = [...FINAL, "gave_way"];

  const spoken = document.createElement("p");
  spoken.className = "spoken";
  spoken.setAttribute("role", "status");
  document.body.append(spoken);
  let spokenAt = -Infinity;
  let waiting;

  function announce(text, isUrgent) {
    clearTimeout(waiting);
    const wait = isUrgent ? 0 : Math.max(0, spokenAt + ANNOUNCE_MS - performance.now());
    waiting = setTimeout(() => {
      spokenAt = performance.now();
      spoken.textContent = text;
    }, wait);
  }

  // Makes `old` like `fresh` by the fewest changes, so that focus, scroll and what is unfolded stay; counts them.
  function merge(old, fresh) {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data === fresh.data) {
        return 0;
      }
      old.data = fresh.data;
      return 1;
    }
    let changes = 0;
    for (const { name, value } of [...fresh.attributes]) {
      if (old.getAttribute(name) !== value) {
        old.setAttribute(name, value);
        changes += 1;
      }
    }
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) {
        old.removeAttribute(name);
        changes += 1;
      }
    }
    return old.matches("[data-chart]") ? changes : changes + mergeChildren(old, fresh);  // a chart's inside is its picture
  }

  const fits = (old, fresh) => old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName && (old.id ?? "") === (fresh.id ?? "");

  function mergeChildren(old, fresh) {
    let changes = 0;
    let next = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      let found = next;
      while (found && !fits(found, child)) {
        found = child.id ? found.nextSibling : null;
      }
      if (!found) {
        old.insertBefore(child, next);
        changes += 1;
        continue;
      }
      while (next !== found) {
        const gone = next;
        next = next.nextSibling;
        gone.remove();
        changes += 1;
      }
      next = found.nextSibling;
      changes += merge(found, child);
    }
    while (next) {
      const gone = next;
      next = next.nextSibling;
      gone.remove();
      changes += 1;
    }
    return changes;
  }

  const headlines = (region) => [...region.querySelectorAll("[data-announce]")].map((each) => each.textContent.trim().replace(/\s+/g, " "));

  function take(region, page) {
    const fresh = page.getElementById(region.id);
    if (!fresh) {
      return;
    }
    window.alcove.localize(fresh);
    const before = headlines(region);
    if (merge(region, fresh) > 0) {
      window.htmx.process(region);
      window.alcove.draw(region);
      const news = headlines(region).filter((text) => !before.includes(text));
      announce(news.length ? news.join(". ") : "This page was updated", news.length > 0);
    }
  }

  class Stream {
    constructor(address, regions) {
      this.address = address;
      this.regions = regions;
      this.tries = 0;
      this.why = "new";  // that it is not live; "": it is
      this.stop = null;
    }

    show(why) {
      const words = why ? WORDS[why] ?? WORDS.lost : this.why === "new" ? WORDS.live : WORDS.again;
      if (why !== this.why) {
        for (const region of this.regions) {
          const state = document.querySelector(`[data-live-state="${region.id}"]`);
          if (!state) {
            continue;  // another region of the page says it
          }
          state.textContent = words;
          state.classList.toggle("is-live", !why);
        }
      }
      this.why = why;
    }

    // Connects now, unless it is connected or has nothing to connect to.
    open() {
      clearTimeout(this.timer);
      if (!this.stop && !FINAL.includes(this.why)) {
        this.listen();
      }
    }

    close() {
      clearTimeout(this.timer);
      this.stop?.abort();
      this.stop = null;
    }

    async listen() {
      const stop = this.stop = new AbortController();
      let watchdog;
      let why = "lost";
      const heard = () => {
        clearTimeout(watchdog);
        watchdog = setTimeout(() => stop.abort(), SILENT_MS);
      };
      try {
        heard();
        const answer = await fetch(this.address, { headers: { Accept: "application/json, text/event-stream" }, cache: "no-store", signal: stop.signal });
        if (!answer.ok) {
          why = { 401: "signed_out", 404: "gone", 429: "full", 503: "unavailable", 504: "unavailable" }[answer.status] ?? "lost";
        } else {
          const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
          let text = "";
          for (let part = await reader.read(); !part.done; part = await reader.read()) {
            heard();
            const events = (text + part.value).split("\n\n");
            text = events.pop();
            for (const event of events) {
              why = this.take(event) ?? why;
            }
          }
        }
      } catch {
        // The network failed, or nothing was heard: `why` says so already.
      }
      clearTimeout(watchdog);
      if (this.stop === stop) {  // else somebody closed it
        this.stop = null;
        this.retry(why);
      }
    }

    // Takes one event; returns why the stream ends, if it says so.
    take(event) {
      const kind = /^event: (.*)$/m.exec(event)?.[1];
      const data = /^data: (.*)$/m.exec(event)?.[1];
      if (kind === "changed") {
        this.load();
      }
      return kind === "end" ? JSON.parse(data).why : undefined;
    }

    retry(why) {
      const shown = why === "stopping" ? "lost" : why;
      if (why !== "again") {  // after an hour a stream begins anew
        this.show(shown);
      }
      if (!PATIENT.includes(shown)) {
        const wait = why === "again" ? 0 : WAITS_MS[Math.min(this.tries, WAITS_MS.length - 1)] * (0.5 + Math.random() / 2);
        this.tries += 1;
        this.timer = setTimeout(() => this.open(), wait);
      }
    }

    // Loads the page and takes what differs; what changes meanwhile makes it load once more.
    async load() {
      this.isOld = true;
      if (this.isLoading) {
        return;
      }
      this.isLoading = true;
      try {
        await new Promise((done) => setTimeout(done, Math.random() * SPREAD_MS));
        while (this.isOld) {
          this.isOld = false;
          const answer = await fetch(location.href, { headers: { Accept: "text/html", "X-Alcove-Idle": "1" }, cache: "no-store" });
          if (new URL(answer.url).pathname === "/sign-in") {
            this.close();
            this.show("signed_out");
          } else if (answer.ok) {
            const page = new DOMParser().parseFromString(await answer.text(), "text/html");
            this.regions.forEach((region) => take(region, page));
            if (this.stop) {
              this.tries = 0;
              this.show("");
            }
          } else {
            throw new Error(answer.statusText);
          }
        }
      } catch {
        this.close();
        this.retry("lost");  // what it missed it loads when it is connected again
      } finally {
        this.isLoading = false;
      }
    }
  }

  const regions = [...document.querySelectorAll("[data-live]")];
  const addresses = [...new Set(regions.map((region) => region.dataset.live))];
  const streams = addresses.map((address) => new Stream(address, regions.filter((region) => region.dataset.live === address)));
  let hidden;

  function open() {
    clearTimeout(hidden);
    streams.forEach((stream) => stream.open());
  }

  function close() {
    clearTimeout(hidden);
    streams.forEach((stream) => stream.close());
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      hidden = setTimeout(close, HIDDEN_MS);
    } else {
      open();
    }
  });
  addEventListener("focus", open);
  addEventListener("online", open);
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  open();
})();
