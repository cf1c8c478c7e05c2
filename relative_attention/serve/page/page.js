"use strict";

// Milliseconds of no typing before a text is sent.
const PAUSE = 250;
const TOKEN_KEY = "relative-attention-token";

const $ = (id) => document.getElementById(id);
const source = $("source");
const target = $("target");
const state = {
  maxSentences: 1,
  // For each line of the text, what stands at `rows` of it: its translations.
  lines: [],
  results: [],
  chosen: 0,
};

// ---- Asking the server. What is asked for anew makes the answer before stale:
// it is cancelled, so that it frees its place, and dropped if it comes.

const asking = new Map();

async function ask(kind, path, body) {
  asking.get(kind)?.abort();
  const controller = new AbortController();
  asking.set(kind, controller);
  const headers = { "Content-Type": "application/json" };
  const token = sessionStorage.getItem(TOKEN_KEY);
  if (token) headers.Authorization = `Bearer ${token}`;
  try {
    const response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: controller.signal,
    });
    const answer = await response.json().catch(() => ({}));
    if (asking.get(kind) !== controller) return null;
    if (response.status === 401) askForToken();
    if (!response.ok) {
      throw new Error(answer.error || `The server answered ${response.status}.`);
    }
    return answer;
  } catch (error) {
    if (error.name === "AbortError" || asking.get(kind) !== controller) {
      return null;
    }
    throw error instanceof TypeError
      ? new Error("The server cannot be reached.")
      : error;
  }
}

function drop(kind) {
  asking.get(kind)?.abort();
  asking.delete(kind);
}

const modelPath = (before, after) =>
  `${before}/${encodeURIComponent($("model").value)}${after}`;

function say(text, isError = false) {
  $("status").textContent = text;
  $("status").classList.toggle("error", isError);
}

function askForToken() {
  $("token-form").hidden = false;
  $("token").focus();
}

function debounced(act) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(act, PAUSE);
  };
}

// ---- Elements. Text is only ever set as text.

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

const score = (value) =>
  element("span", {
    className: "score",
    title: "Log-probability with length penalty",
    textContent: value.toFixed(2).replace("-", "\u2212"),
  });

// ---- Translation

async function translate() {
  closeAlternatives();
  closeView();
  const lines = source.value.split("\n");
  const rows = lines.flatMap((line, row) => (line.trim() ? [row] : []));
  $("clear").hidden = !source.value;
  if (!rows.length) {
    drop("translate");
    state.lines = state.results = [];
    target.classList.remove("waiting");
    say("");
    showTranslation();
    return;
  }
  if (rows.length > state.maxSentences) {
    drop("translate");
    target.classList.remove("waiting");
    say(`At most ${state.maxSentences} lines at a time.`, true);
    return;
  }
  target.classList.add("waiting");
  const start = performance.now();
  try {
    const answer = await ask("translate", modelPath("/v1/models", ":predict"), {
      signature_name: "n_best",
      inputs: { sentences: rows.map((row) => lines[row]) },
    });
    if (answer === null) return;
    const { translations, scores } = answer.outputs;
    state.lines = lines;
    state.results = lines.map(() => []);
    rows.forEach((row, number) => {
      state.results[row] = translations[number]
        .map((text, rank) => ({ text, score: scores[number][rank] }))
        // What stands where fewer were found.
        .filter((result) => result.score > -1e6);
    });
    target.classList.remove("waiting");
    // Of the translation before, which could be chosen from until now.
    closeAlternatives();
    closeView();
    const milliseconds = Math.round(performance.now() - start);
    say(`Translated in ${milliseconds} ms.`);
    showTranslation();
  } catch (error) {
    target.classList.remove("waiting");
    say(error.message, true);
  }
}

function showTranslation() {
  target.replaceChildren(
    ...state.results.map((results, row) => {
      const line = element("p");
      line.dataset.row = row;
      words(results[0]?.text ?? "").forEach(({ word, before }, number) => {
        if (number) line.append(" ");
        const button = element("button", {
          type: "button",
          className: "word",
          textContent: word,
          tabIndex: -1,
        });
        button.setAttribute("aria-expanded", "false");
        button.dataset.before = before;
        line.append(button);
      });
      return line;
    }),
  );
  target.classList.toggle(
    "many",
    state.results.filter((results) => results.length).length > 1,
  );
  const first = target.querySelector(".word");
  if (first) first.tabIndex = 0;
  $("copy").hidden = !first;
  chooseLine(caretRow());
  compare();
}

// Each word of a line, and what stands before it.
function words(text) {
  return [...text.matchAll(/\S+/g)].map((match) => ({
    word: match[0],
    before: text.slice(0, match.index).trimEnd(),
  }));
}

const caretRow = () =>
  source.value.slice(0, source.selectionStart).split("\n").length - 1;

// The line whose n-best list and attention are shown.
function chooseLine(row) {
  const filled = state.results.flatMap((results, number) =>
    results.length ? [number] : [],
  );
  if (!filled.includes(row)) {
    // The last filled line above, or the first.
    row = filled.filter((number) => number < row).pop() ?? filled[0] ?? 0;
  }
  if (row !== state.chosen) closeView();
  state.chosen = row;
  for (const line of target.children) {
    line.classList.toggle("chosen", Number(line.dataset.row) === row);
  }
  const results = state.results[row] ?? [];
  $("best").hidden = results.length < 2;
  $("best-line").textContent = filled.length > 1 ? `line ${row + 1}` : "";
  $("best-list").replaceChildren(
    ...results.map((result) =>
      element(
        "li",
        {},
        element("span", { className: "text", textContent: result.text }),
        score(result.score),
      ),
    ),
  );
  $("view-card").hidden = !results.length;
}

// ---- Other ways to go on

async function showAlternatives(button) {
  const row = Number(button.parentElement.dataset.row);
  chooseLine(row);
  for (const other of target.querySelectorAll("[aria-expanded='true']")) {
    other.setAttribute("aria-expanded", "false");
  }
  button.setAttribute("aria-expanded", "true");
  const prefix = button.dataset.before;
  try {
    const answer = await ask(
      "alternatives",
      modelPath("/api/models", "/alternatives"),
      { sentence: state.lines[row], prefix },
    );
    if (answer === null) return;
    $("alternatives").hidden = false;
    $("alternatives-list").replaceChildren(
      ...answer.alternatives.map((found) => {
        const choose = element("button", {
          type: "button",
          className: "text",
        });
        const rest = found.text.slice(prefix.length);
        const next = rest.match(/^\s*\S+/)?.[0] ?? "";
        if (found.text.startsWith(prefix)) {
          choose.append(
            element("span", { className: "kept", textContent: prefix }),
            next.match(/^\s*/)[0],
            element("mark", { textContent: next.trimStart() }),
            rest.slice(next.length),
          );
        } else {
          choose.append(found.text);
        }
        choose.addEventListener("click", () => take(row, found));
        return element("li", {}, choose, score(found.score));
      }),
    );
    say(`${answer.alternatives.length} other ways to go on.`);
  } catch (error) {
    say(error.message, true);
  }
}

// Puts a translation in the place of the one that is shown.
function take(row, found) {
  closeView();
  const others = state.results[row].filter(({ text }) => text !== found.text);
  state.results[row] = [found, ...others];
  closeAlternatives();
  showTranslation();
  chooseLine(row);
  target.querySelector(`[data-row='${row}'] .word`)?.focus();
}

function closeAlternatives() {
  drop("alternatives");
  $("alternatives").hidden = true;
  $("alternatives-list").replaceChildren();
  const open = target.querySelector("[aria-expanded='true']");
  open?.setAttribute("aria-expanded", "false");
  return open;
}

// ---- BLEU

async function compare() {
  const references = $("reference").value.replace(/\n+$/, "").split("\n");
  const best = state.results.map((results) => results[0]?.text ?? "");
  while (best.length && !best.at(-1)) best.pop();
  drop("bleu");
  $("bleu").textContent = "";
  if (!$("reference").value.trim() || !best.length) return;
  if (references.length !== best.length) {
    $("signature").textContent =
      `The reference has ${references.length} lines, the translation ` +
      `${best.length}.`;
    return;
  }
  try {
    const answer = await ask("bleu", "/api/bleu", {
      translations: best,
      references,
    });
    if (answer === null) return;
    // Of one line that of a sentence, which has fewer n-grams.
    const value = best.length > 1 ? answer.bleu : answer.sentences[0];
    $("bleu").textContent = `BLEU ${value.toFixed(1)}`;
    $("signature").textContent =
      best.length > 1
        ? `sacreBLEU ${answer.signature}`
        : "BLEU of one sentence, effective order (sacreBLEU).";
  } catch (error) {
    $("signature").textContent = error.message;
  }
}

// ---- Attention

async function showView() {
  if (!$("view").hidden) {
    closeView();
    return;
  }
  say("Looking into the model …");
  try {
    const answer = await ask("view", modelPath("/api/models", "/view"), {
      sentence: state.lines[state.chosen],
      translation: state.results[state.chosen][0].text,
    });
    if (answer === null) return;
    $("view").src = $("view-link").href = answer.path;
    $("view").hidden = $("view-link").hidden = false;
    $("show-view").textContent = "Hide";
    say("");
  } catch (error) {
    say(error.message, true);
  }
}

function closeView() {
  drop("view");
  $("view").hidden = $("view-link").hidden = true;
  $("view").removeAttribute("src");
  $("show-view").textContent = "Show";
}

// ---- Keys and clicks

function moveBetweenWords(event) {
  const steps = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
  const step = steps[event.key];
  const all = [...target.querySelectorAll(".word")];
  const place = all.indexOf(event.target);
  if (step === undefined || place < 0) return;
  event.preventDefault();
  const next = all[Math.min(Math.max(place + step, 0), all.length - 1)];
  event.target.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

async function copy() {
  const text = state.results.map((results) => results[0]?.text ?? "");
  try {
    await navigator.clipboard.writeText(text.join("\n"));
    say("Copied.");
  } catch {
    say("The browser does not let this page copy.", true);
  }
}

async function start() {
  try {
    const answer = await ask("models", "/api/models");
    if (answer === null) return;
    $("token-form").hidden = true;
    state.maxSentences = answer.max_sentences;
    $("model").replaceChildren(
      ...answer.models.map(({ name }) =>
        element("option", { value: name, textContent: name }),
      ),
    );
    say("");
    translate();
  } catch (error) {
    say(error.message, true);
  }
}

source.addEventListener("input", debounced(translate));
source.addEventListener("keyup", () => chooseLine(caretRow()));
source.addEventListener("click", () => chooseLine(caretRow()));
$("reference").addEventListener("input", debounced(compare));
$("model").addEventListener("change", translate);
$("copy").addEventListener("click", copy);
$("show-view").addEventListener("click", showView);
$("close-alternatives").addEventListener("click", () =>
  closeAlternatives()?.focus(),
);
$("clear").addEventListener("click", () => {
  source.value = "";
  translate();
  source.focus();
});
target.addEventListener("click", (event) => {
  const button = event.target.closest(".word");
  const line = event.target.closest("p");
  if (button) showAlternatives(button);
  else if (line) chooseLine(Number(line.dataset.row));
});
target.addEventListener("keydown", moveBetweenWords);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") closeAlternatives()?.focus();
});
$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN_KEY, $("token").value.trim());
  $("token").value = "";
  start();
});
start();
