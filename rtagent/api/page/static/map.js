"use strict";
/* The host map: shows the claim of the owner under the pointer or the focus, pins an owner, and moves
   the focus on the map with the arrow keys. */

(() => {
  const map = () => document.getElementById("map");
  const inspector = () => document.getElementById("inspector");
  let pinned = null;  // the uuid of an owner
  let shown = null;   // the element that the inspector is about

  const each = (selector, act) => document.querySelectorAll(selector).forEach(act);
  const row = (code) => document.getElementById(`o-${code}`);
  const codeOf = (uuid) => {
    const found = [...document.querySelectorAll(".owners tr[data-uuid]")].find((tr) => tr.dataset.uuid === uuid);
    return found ? found.dataset.owner : null;
  };
  const mark = (name, code) => each("[data-owner]", (e) => e.classList.toggle(name, e.dataset.owner === code));

  const element = (tag, text, name) => {
    const made = document.createElement(tag);
    if (text) made.textContent = text;
    if (name) made.className = name;
    return made;
  };

  // -- the inspector: what the table of owners has about one owner -----------------------------------
  const describe = (code, at) => {
    const place = inspector();
    if (!place) return;
    const found = code ? row(code) : null;
    const parts = [];
    if (found) {
      const heading = element("h2");
      heading.append(found.cells[0].firstElementChild.cloneNode(true), found.cells[1].firstElementChild.cloneNode(true));
      const list = element("dl"), titles = found.closest("table").tHead.rows[0].cells;
      for (let n = 2; n < found.cells.length; n += 1) {
        if (found.cells[n].textContent.trim()) {
          const value = element("dd", "", found.cells[n].className.replace("number", ""));
          value.append(...[...found.cells[n].childNodes].map((node) => node.cloneNode(true)));
          list.append(element("dt", titles[n].textContent), value);
        }
      }
      parts.push(heading, list);
    }
    if (at) parts.push(element("p", at, "at"));
    if (pinned && found) {
      const release = element("button", "Release");
      release.type = "button";
      release.addEventListener("click", () => pin(null));
      parts.push(release);
    }
    place.classList.toggle("empty", parts.length === 0);
    if (parts.length === 0) parts.push(element("h2", "Claim"), element("p", "Point at an owner, or go there with the arrow keys.", "muted"));
    place.replaceChildren(...parts);
  };

  const labelOf = (e) => (e ? e.getAttribute("aria-label") || e.dataset.label || "" : "");
  const show = (target) => {
    shown = target;
    const code = target ? target.dataset.owner : null;
    mark("near", pinned ? null : code || null);
    if (pinned) describe(codeOf(pinned), labelOf(target));
    else describe(code, labelOf(target));
  };

  const pin = (uuid) => {
    pinned = uuid;
    const code = uuid ? codeOf(uuid) : null;
    if (!code) pinned = null;
    document.documentElement.classList.toggle("pinned", Boolean(pinned));
    mark("lit", pinned ? code : null);
    show(shown && shown.isConnected ? shown : null);
    const status = document.getElementById("pin-status");
    if (status) status.textContent = pinned ? `Pinned: ${row(code).cells[1].textContent}` : "";
  };

  // -- the keyboard: one tab stop, and arrows by what is where on the screen ---------------------------
  const stops = () => [...map().querySelectorAll("a.cpu, a.unit")];
  const rove = (to) => {
    for (const e of stops()) e.tabIndex = e === to ? 0 : -1;
  };
  const nearest = (from, key) => {
    const middle = (r) => (r.left + r.right) / 2;
    const here = from.getBoundingClientRect(), down = key === "ArrowDown";
    let best = null, distance = Infinity;
    for (const e of stops()) {
      const there = e.getBoundingClientRect();
      const steps = down ? there.top - here.bottom : here.top - there.bottom;
      if (steps < -1) continue;
      const far = steps * 3 + Math.abs(middle(there) - middle(here));
      if (far < distance) { best = e; distance = far; }
    }
    return best;
  };
  const next = (from, key) => {
    const all = stops(), at = all.indexOf(from);
    if (key === "ArrowRight") return all[at + 1];
    if (key === "ArrowLeft") return all[at - 1];
    if (key === "Home") return all[0];
    if (key === "End") return all[all.length - 1];
    return nearest(from, key);
  };
  const KEYS = ["ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown", "Home", "End"];

  const start = () => {
    if (!map()) return;
    rove(stops()[0]);
    describe(null, "");
    const subject = (event) => event.target.closest && event.target.closest("#map [data-owner], #map .cpu, #map .unit, .owners tr[data-owner]");
    document.addEventListener("pointerover", (event) => show(subject(event)));
    document.addEventListener("focusin", (event) => {
      const target = subject(event);
      if (!target) return;
      if (target.matches("a.cpu, a.unit")) rove(target);
      show(target);
    });
    document.addEventListener("click", (event) => {
      const target = subject(event);
      if (!target || !target.dataset.owner || event.ctrlKey || event.metaKey) return;
      if (event.target.closest("a") && !event.target.closest("#map")) return;
      event.preventDefault();
      const uuid = row(target.dataset.owner).dataset.uuid;
      pin(uuid === pinned ? null : uuid);
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && pinned) { pin(null); return; }
      const from = event.target.closest("a.cpu, a.unit");
      if (!from || !KEYS.includes(event.key) || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      const to = next(from, event.key);
      if (to) { rove(to); to.focus(); }
    });
    document.addEventListener("page:updated", () => {
      const focused = stops().find((e) => e === document.activeElement) || stops().find((e) => e.tabIndex === 0);
      rove(focused || stops()[0]);
      pin(pinned);
    });
  };
  start();
})();
