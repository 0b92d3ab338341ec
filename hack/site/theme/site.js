// The site works without this script: it adds the search, diagrams, anchors, buttons to copy, and the choice of colours.
(() => {
  "use strict";

  // Colours are chosen before the page is shown. A browser may forbid to remember the choice.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const isDark = () => (document.documentElement.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
  if (chosen()) document.documentElement.dataset.theme = chosen();

  function addTheme() {
    const button = document.getElementById("theme");
    const label = () => { button.textContent = isDark() ? "Light" : "Dark"; };
    button.hidden = false;
    label();
    button.addEventListener("click", () => {
      document.documentElement.dataset.theme = isDark() ? "light" : "dark";
      try { localStorage.setItem("theme", document.documentElement.dataset.theme); } catch { /* until the next page */ }
      label();
      drawDiagrams();
    });
    dark.addEventListener("change", () => { label(); drawDiagrams(); });
  }

  function addAnchors() {
    for (const heading of document.querySelectorAll("main :is(h1, h2, h3, h4, h5, h6)[id]")) {
      const link = document.createElement("a");
      link.className = "anchor";
      link.href = "#" + heading.id;
      link.textContent = "#";
      link.setAttribute("aria-label", "Link to " + heading.textContent);
      heading.append(link);
    }
  }

  // Wide code and tables scroll by themselves, also by keyboard.
  function addScrolling() {
    for (const table of document.querySelectorAll("main table")) {
      const frame = document.createElement("div");
      frame.className = "scroll";
      table.replaceWith(frame);
      frame.append(table);
    }
    for (const part of document.querySelectorAll("main pre, main .scroll")) {
      if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
    }
  }

  function addCopying() {
    if (!navigator.clipboard) return;
    for (const code of document.querySelectorAll("main pre > code:not(.language-text, .language-mermaid)")) {
      const frame = document.createElement("div");
      frame.className = "code";
      code.parentElement.replaceWith(frame);
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = "Copy";
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
        setTimeout(() => { button.textContent = "Copy"; }, 2000);
      });
      frame.append(code.parentElement, button);
    }
  }

  const diagrams = [];

  function addDiagrams() {
    if (!window.mermaid) return;
    for (const code of document.querySelectorAll("pre > code.language-mermaid")) {
      diagrams.push({ source: code.textContent, place: code.parentElement });
    }
    drawDiagrams();
  }

  // A diagram with an error stays as it was.
  async function drawDiagrams() {
    if (!diagrams.length) return;
    mermaid.initialize({ startOnLoad: false, securityLevel: "strict", theme: isDark() ? "dark" : "neutral", fontFamily: "system-ui, sans-serif" });
    for (const [number, diagram] of diagrams.entries()) {
      try {
        const drawn = document.createElement("div");
        drawn.className = "diagram";
        diagram.place.before(drawn); // so that text is measured where it will be
        drawn.innerHTML = (await mermaid.render("diagram-" + number, diagram.source, drawn)).svg;
        diagram.place.remove();
        diagram.place = drawn;
      } catch (problem) {
        diagram.place.previousElementSibling?.remove();
        console.error("diagram " + number + ": " + problem.message);
      }
    }
  }

  const shownResults = 12;

  // Words of a question without a meaning for its answer. "why" and "who" are commands.
  const emptyWords = new Set("a an and are at be by do does for how i if in is it my of on or the to what with".split(" "));

  // Changes and decisions have all words, and seldom the answer.
  const isHistory = (url) => /^(CHANGELOG|docs\/design\/decisions\/)/.test(url);

  const engineOptions = {
    fields: ["keywords", "page", "heading", "text"], storeFields: ["url", "page", "heading", "text"],
    processTerm: (term) => { // the singular of a word, or nothing
      const word = term.toLowerCase();
      return emptyWords.has(word) ? null : word.replace(/(..[^su])s$/, "$1");
    },
    searchOptions: {
      boost: { keywords: 8, page: 4, heading: 3 }, boostDocument: (id, term, record) => (isHistory(record.url) ? 0.2 : 1),
      prefix: true, fuzzy: (word) => (word.length > 4 ? 0.2 : false), combineWith: "AND",
    },
  };

  // Places with all words, and below them places with some.
  function find(engine, text) {
    const all = engine.search(text);
    const found = new Set(all.map((result) => result.id));
    return all.concat(engine.search(text, { combineWith: "OR" }).filter((result) => !found.has(result.id)));
  }

  // The line of a record around the first word that was found.
  function excerpt(text, words) {
    const found = words.map((word) => text.toLowerCase().indexOf(word)).filter((place) => place >= 0);
    const start = found.length ? Math.max(0, Math.min(...found) - 60) : 0;
    return (start ? "… " : "") + text.slice(start, start + 180) + (start + 180 < text.length ? " …" : "");
  }

  function show(results, list) {
    list.replaceChildren();
    const count = document.createElement("p");
    count.setAttribute("role", "status");
    count.textContent = results.length ? results.length + (results.length === 1 ? " place" : " places") : "Nothing found. Try fewer or other words.";
    list.append(count);
    for (const result of results.slice(0, shownResults)) {
      const link = document.createElement("a");
      link.href = document.body.dataset.root + "/" + result.url;
      const title = document.createElement("strong");
      title.textContent = result.page + (result.heading ? " › " + result.heading : "");
      const text = document.createElement("span");
      text.textContent = excerpt(result.text, result.terms);
      link.append(title, text);
      list.append(link);
    }
  }

  function addSearch() {
    const input = document.getElementById("search");
    const list = document.getElementById("results");
    if (!input || !window.MiniSearch || !window.searchIndex) return;
    let engine;
    const search = () => {
      if (!engine) {
        engine = new MiniSearch(engineOptions);
        engine.addAll(window.searchIndex);
      }
      list.hidden = !input.value.trim();
      if (!list.hidden) show(find(engine, input.value), list);
    };
    const close = () => { list.hidden = true; };
    input.addEventListener("input", search);
    input.addEventListener("focus", search);
    document.addEventListener("click", (event) => { if (!event.target.closest("search")) close(); });
    list.addEventListener("click", close);
    document.addEventListener("keydown", (event) => {
      const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
      if (event.key === "/" && !typing) {
        event.preventDefault();
        input.focus();
      }
      if (event.key === "Escape") close();
      if (list.hidden || !event.target.closest("search")) return;
      const places = [input, ...list.querySelectorAll("a")];
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      const next = places[places.indexOf(document.activeElement) + step];
      if (next) {
        event.preventDefault();
        next.focus();
      } else if (event.key === "Enter" && document.activeElement === input && places[1]) {
        places[1].click();
      }
    });
  }

  document.addEventListener("DOMContentLoaded", () => {
    // A narrow screen shows the page first.
    if (matchMedia("(max-width: 50rem)").matches) document.querySelector(".menu").open = false;
    addAnchors();
    addScrolling();
    addCopying();
    addDiagrams();
    addSearch();
    addTheme();
  });
})();
