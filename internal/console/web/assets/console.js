// The live parts of the console. Everything works for reading without this file.
"use strict";

// A one-time token comes in the URL's fragment, which browsers do not send. It logs in and leaves the address bar.
(function logIn() {
  const form = document.getElementById("one-time");
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!form || !token) return;
  history.replaceState(null, "", location.pathname + location.search);
  form.elements.namedItem("token").value = token;
  form.submit();
})();

// The stream of changes renews the element with the ID "live". A hidden page waits until it is seen.
(function live() {
  let source = null, isStale = false, isRenewing = false, isLost = false;
  const now = () => new Date().toISOString().slice(11, 19) + " UTC";
  const main = () => document.getElementById("main");

  async function renew() {
    if (document.hidden || isRenewing) { isStale = true; return; }
    if (!document.getElementById("live")) return;
    isStale = false;
    isRenewing = true;
    try {
      await htmx.ajax("GET", location.href, {target: "#live", select: "#live", swap: "outerHTML"});
    } catch {
      // The event says that it failed.
    } finally {
      isRenewing = false;
      if (isStale) renew();
    }
  }

  // What could not be renewed stays, with its time, and is tried again.
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.target.id !== "live") return;
    if (!event.detail.successful) { setTimeout(renew, 5000); return; }
    document.getElementById("renewed").textContent = "Renewed at " + now() + ".";
  });

  function open() {
    const url = main() && main().dataset.live;
    if (!url || source) return;
    source = new EventSource(url);
    source.addEventListener("changed", renew);
    source.addEventListener("open", () => { if (isLost) { isLost = false; renew(); } });
    // The browser does not try again after an answer that is no stream: the session has ended, or has too many streams.
    source.addEventListener("error", () => {
      if (!isLost) document.getElementById("renewed").textContent = "The connection was lost at " + now() + "; this page may be out of date.";
      isLost = true;
      if (!source || source.readyState !== EventSource.CLOSED) return;
      source = null;
      renew();
      setTimeout(() => { if (!document.hidden) open(); }, 30000);
    });
  }

  function close() {
    if (source) source.close();
    source = null;
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { close(); isStale = true; } else { open(); if (isStale) renew(); }
  });
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", open);
  if (!document.hidden) open();
})();

// A select or checkbox with data-submit sends its form when it changes; without the script, the form has a button.
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
});
