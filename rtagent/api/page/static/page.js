"use strict";
/* The script of all pages: the theme, and updates in place.

   Elements with [data-live] and an id are brought up to date each second, as long as the page is
   visible. Only what differs is changed, so focus, scroll position, selection and open <details> stay.
   Elements with [data-kept] belong to scripts and stay as they are.
   After each update the event "page:updated" is sent to the document. */

(() => {
  const EVERY = 1000, PATIENCE = 5000, THEMES = ["auto", "light", "dark"];
  const root = document.documentElement;

  // -- theme: set before the body is parsed, so that it does not flash ----------------------------
  const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const theme = () => (THEMES.includes(stored()) ? stored() : "auto");
  const showTheme = () => {
    root.classList.toggle("theme-light", theme() === "light");
    root.classList.toggle("theme-dark", theme() === "dark");
    const button = document.getElementById("theme");
    if (button) { button.hidden = false; button.textContent = `Theme: ${theme()}`; }
  };
  const nextTheme = () => {
    const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
    try { localStorage.setItem("theme", next); } catch { return; }
    showTheme();
  };
  root.classList.add("js");
  showTheme();

  // -- updates in place -----------------------------------------------------------------------------
  const KEPT = ["open", "tabindex"];  // the user's, or set by scripts
  const same = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id || "") === (b.id || "");

  const copyAttributes = (from, to) => {
    for (const { name } of [...to.attributes]) {
      if (!from.hasAttribute(name) && !KEPT.includes(name)) to.removeAttribute(name);
    }
    for (const { name, value } of from.attributes) {
      if (to.getAttribute(name) !== value && !KEPT.includes(name)) to.setAttribute(name, value);
    }
  };

  const update = (to, from) => {
    if (to.isEqualNode(from) || to.dataset?.kept !== undefined) return;
    if (to.nodeType !== Node.ELEMENT_NODE) { to.nodeValue = from.nodeValue; return; }
    copyAttributes(from, to);
    const byId = new Map([...to.children].filter((each) => each.id).map((each) => [each.id, each]));
    const wanted = new Set([...from.children].map((each) => each.id).filter(Boolean));
    let next = to.firstChild;
    for (const child of [...from.childNodes]) {
      while (next && next.id && !wanted.has(next.id)) { const gone = next; next = next.nextSibling; gone.remove(); }
      const known = child.id ? byId.get(child.id) : next && same(next, child) ? next : null;
      if (known && known.nodeName === child.nodeName) {
        if (known === next) next = next.nextSibling; else to.insertBefore(known, next);
        update(known, child);
      } else {
        to.insertBefore(document.importNode(child, true), next);
      }
    }
    while (next) { const gone = next; next = next.nextSibling; gone.remove(); }
  };

  let tag = null, failures = 0, timer = null;
  const say = (text, lost) => {
    const place = document.getElementById("connection");
    if (!place) return;
    place.hidden = false;
    place.classList.toggle("lost", lost);
    if (place.textContent !== text) place.textContent = text;
  };

  const poll = async () => {
    const abort = new AbortController();
    const limit = setTimeout(() => abort.abort(), PATIENCE);
    try {
      const headers = tag ? { "If-None-Match": tag } : {};
      const answer = await fetch(location.href, { headers, cache: "no-store", signal: abort.signal });
      if (answer.status === 200) {
        const text = await answer.text();
        const fresh = new DOMParser().parseFromString(text, "text/html");
        for (const place of document.querySelectorAll("[data-live][id]")) {
          const from = fresh.getElementById(place.id);
          if (from) update(place, from);
        }
        tag = answer.headers.get("ETag");
        document.dispatchEvent(new CustomEvent("page:updated"));
      } else if (answer.status !== 304) {
        throw new Error(`status ${answer.status}`);
      }
      failures = 0;
      say("Live", false);
    } catch {
      failures += 1;
      say("Connection lost: trying again", true);
    } finally {
      clearTimeout(limit);
    }
  };

  const loop = async () => {
    clearTimeout(timer);
    timer = null;
    if (document.hidden) return;
    await poll();
    // A server that is gone is asked less often, at most every 8 s.
    timer = setTimeout(loop, EVERY * Math.min(8, 2 ** Math.max(0, failures - 1)));
  };

  document.addEventListener("DOMContentLoaded", () => {
    showTheme();
    document.getElementById("theme").addEventListener("click", nextTheme);
    if (document.querySelector("[data-live]")) loop();
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && timer === null) loop(); });
})();
