// Everything the pages do by themselves: the switch of the theme, parts that are fetched again, the live tail,
// the place of a fault while one types, and what a condition would have reported. Without it the pages still work.
"use strict";

const root = document.body.dataset.root;
const asks = { "x-asks-for": "fragment" };

// -- the door ------------------------------------------------------------------------------------------------

// What a script asks for is answered with 401 when the service was started again or the session has ended.
async function ask(url, options = {}) {
  const answer = await fetch(url, { ...options, headers: asks });
  const isShut = answer.status === 401 || answer.redirected;
  sayShut(isShut);
  if (isShut) throw new Error("Enter again.");
  return answer;
}

function sayShut(isShut) {
  const there = document.getElementById("shut");
  if (!isShut && there) there.remove();
  if (!isShut || there) return;
  const said = document.createElement("p"), link = document.createElement("a");
  said.id = "shut";
  said.className = "refusal";
  said.setAttribute("role", "alert");
  link.href = `${root}/enter`;
  link.target = "_blank";  // what was typed here stays
  link.textContent = "Enter again";
  said.append("The session has ended, or the service was started again. ", link, "; then go on here.");
  document.getElementById("main").prepend(said);
}

// -- light and dark ------------------------------------------------------------------------------------------

const theme = document.getElementById("theme");
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : prefersDark.matches;
}

function nameTheme() {
  theme.textContent = isDark() ? "Light" : "Dark";
  theme.setAttribute("aria-label", isDark() ? "Switch to light colours" : "Switch to dark colours");
}

theme.hidden = false;
nameTheme();
prefersDark.addEventListener("change", nameTheme);
theme.addEventListener("click", () => {
  const chosen = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = chosen;
  document.cookie = `fencepost-theme=${chosen}; path=/; max-age=31536000; samesite=strict`;
  nameTheme();
});

// -- parts that are fetched again ----------------------------------------------------------------------------

for (const part of document.querySelectorAll("[data-refresh]")) {
  let busy = false;
  setInterval(async () => {
    // Whoever has a place in this part with the keyboard, or selects its text, keeps it.
    const used = part.contains(document.activeElement) || (!getSelection().isCollapsed && part.contains(getSelection().anchorNode));
    if (busy || document.hidden || used) return;
    busy = true;
    try {
      const answer = await ask(part.dataset.refresh);
      if (answer.ok) part.innerHTML = await answer.text();
    } catch { /* the next one may succeed */ } finally { busy = false; }
  }, 1000 * Number(part.dataset.every));
}

// -- the live tail -------------------------------------------------------------------------------------------

const live = document.getElementById("live");

function follow() {
  const rows = document.getElementById("tail"), hold = document.getElementById("hold");
  const nothing = document.getElementById("nothing");
  const most = 100;
  let held = false, missed = 0, said = "";
  const say = (text, on) => {
    // Only what changes is read out.
    if (text !== said) live.textContent = said = text;
    live.classList.toggle("on", on);
  };
  let source = null;
  hold.hidden = false;
  hold.addEventListener("click", () => {
    held = !held;
    missed = 0;
    hold.textContent = held ? "Go on" : "Hold";
    hold.setAttribute("aria-pressed", String(held));
    if (held) say("Held. New events are not shown.", false);
  });
  const open = () => {
    source = new EventSource(live.dataset.stream);
    source.addEventListener("open", () => { sayShut(false); say("Live. New events appear at the top.", true); });
    source.addEventListener("error", async () => {
      say("The connection is lost; trying again.", false);
      // A browser tries again by itself, but not after a refusal, and does not say which one it was.
      if (source.readyState !== EventSource.CLOSED) return;
      try { await ask(live.dataset.probe); } catch { /* it has been said, or nobody answers */ }
      setTimeout(open, 5000);
    });
    source.addEventListener("message", show);
  };
  const show = (message) => {
    const tick = JSON.parse(message.data);
    if (held) {
      missed += tick.total;
      if (missed) say(`Held. ${missed.toLocaleString("en")} newer events are not shown.`, false);
      return;
    }
    if (tick.total > tick.shown) {
      say(`Live. ${tick.total.toLocaleString("en")} events in the last second; ${tick.shown} of them are shown.`, true);
    } else {
      say("Live. New events appear at the top.", true);
    }
    if (!tick.rows) return;
    if (nothing) nothing.hidden = true;
    const piece = document.createElement("template");
    piece.innerHTML = tick.rows;
    for (const row of piece.content.querySelectorAll("tr")) row.classList.add("new");
    // A row that has the keyboard's focus stays until the focus is elsewhere.
    rows.prepend(piece.content);
    while (rows.children.length > most && !rows.lastElementChild.contains(document.activeElement)) rows.lastElementChild.remove();
  };
  open();
  addEventListener("pagehide", () => source.close());
}

if (live) follow();

// -- a condition while it is typed ---------------------------------------------------------------------------

function later(milliseconds, work) {
  let waiting = 0, number = 0;
  return () => {
    clearTimeout(waiting);
    const mine = ++number;
    waiting = setTimeout(() => work(() => mine === number), milliseconds);
  };
}

function edit(editor) {
  const form = editor.closest("form"), text = editor.querySelector("textarea");
  const mirror = editor.querySelector(".mirror"), meaning = editor.querySelector("#meaning");
  const trial = editor.querySelector("#trial");
  let isGood = true;

  const paint = (spans) => {
    const pieces = [];
    let at = 0;
    for (const [start, end] of spans) {
      // Places count characters, a script counts its own units: both are the same but for rare signs.
      const mark = document.createElement("mark");
      mark.textContent = text.value.slice(start, end);
      pieces.push(text.value.slice(at, start), mark);
      at = end;
    }
    mirror.replaceChildren(...pieces, text.value.slice(at), "\n\n");
    mirror.scrollTop = text.scrollTop;
  };

  const send = async (url) => {
    // Where there is no answer, the next one may come.
    try { return await ask(url, { method: "POST", body: new FormData(form) }); } catch { return null; }
  };

  const read = later(200, async (isLast) => {
    const answer = await send(editor.dataset.editor);
    if (!answer || !answer.ok || !isLast()) return;
    const found = await answer.json();
    if (!isLast()) return;
    paint(found.spans);
    meaning.innerHTML = found.html;
    text.setAttribute("aria-invalid", String(Boolean(found.fault)));
    isGood = !found.fault;
  });

  const tryIt = later(600, async (isLast) => {
    if (!editor.dataset.try || !text.value.trim() || !isGood) return;
    const answer = await send(editor.dataset.try);
    if (!answer || !isLast()) return;
    trial.innerHTML = await answer.text();
  });

  // Who sends a form without a session is led to the door, and what was typed is gone: so that is asked before.
  let isOpen = false;
  form.addEventListener("submit", async (event) => {
    if (isOpen) return;
    event.preventDefault();
    await send(editor.dataset.editor);
    if (document.getElementById("shut")) return;
    isOpen = true;
    form.requestSubmit(event.submitter);
  });

  addEventListener("pageshow", () => { isOpen = false; });

  text.addEventListener("input", () => { paint([]); read(); });
  text.addEventListener("scroll", () => { mirror.scrollTop = text.scrollTop; });
  form.addEventListener("input", tryIt);
  form.addEventListener("change", tryIt);
  const button = editor.querySelector('button[value="try"]');
  if (button) button.addEventListener("click", async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      const answer = await send(editor.dataset.try);
      if (answer) trial.innerHTML = await answer.text();
    } finally { button.disabled = false; }
  });
}

for (const editor of document.querySelectorAll("[data-editor]")) edit(editor);
