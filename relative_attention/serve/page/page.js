"use strict";

// Milliseconds of no typing before a text is sent.
const PAUSE = 250;
const TOKEN_KEY = "relative-attention-token";

const $ = (id) => document.getElementById(id);
const source = $("source");
const target = $("target");
const state = {
  models: [],
  maxSentences: 1,
  // For each line of the text its translations, each a text and a score.
  lines: [],
  results: [],
  chosen: 0,
};

// ---- Asking the server. A new request of a kind cancels the one before, which
// frees its place in the line.

const asking = new Map();

function drop(kind) {
  asking.get(kind)?.abort();
  asking.delete(kind);
}

// Returns the answer; nothing after an error, which is shown; null if the answer
// is no longer wanted.
async function ask(kind, path, body) {
  drop(kind);
  const controller = new AbortController();
  asking.set(kind, controller);
  const headers = { "Content-Type": "application/json" };
  const token = sessionStorage.getItem(TOKEN_KEY);
  if (token) headers.Authorization = `Bearer ${token}`;
  let message = "The server cannot be reached.";
  try {
    const response = await fetch(path, {
      method: body ? "POST" : "GET",
      headers,
      body: body && JSON.stringify(body),
      signal: controller.signal,
    });
    const answer = await response.json();
    if (asking.get(kind) !== controller) return null;
    if (response.ok) return answer;
    message = answer.error;
    if (response.status === 401) {
      $("token-form").hidden = false;
      $("token").focus();
    }
  } catch {
    if (asking.get(kind) !== controller) return null;
  }
  say(message, true);
}

const modelPath = (before, after) =>
  `${before}/${encodeURIComponent($("model").value)}${after}`;

function say(text, isError = false) {
  $("status").textContent = text;
  $("status").classList.toggle("error", isError);
}

const count = (number, noun) =>
  `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

function debounced(act) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(act, PAUSE);
  };
}

// Text is only ever set as text.
function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function result(text, score) {
  const shown = score.toFixed(2).replace("-", "\u2212");
  return element("li", {}, text, element("span", { className: "score" }, shown));
}

// ---- Models and their languages

function chooseModel() {
  const model = state.models.find(({ name }) => name === $("model").value);
  const names = new Intl.DisplayNames("en", { type: "language" });
  const [from, to] = model.languages.map((code) => names.of(code));
  $("about").textContent = [from && `${from} \u2192 ${to}`, model.description]
    .filter(Boolean)
    .join(" \u00b7 ");
  document.querySelector("label[for='source']").textContent = from
    ? `Text in ${from}`
    : "Text";
  $("target-title").textContent = to ? `Translation to ${to}` : "Translation";
  // Which voice reads them, and how they are hyphenated. Empty: not known.
  const [code, otherCode] = [...model.languages, "", ""];
  source.lang = code;
  for (const id of ["target", "alternatives-list", "best-list", "reference"]) {
    $(id).lang = otherCode;
  }
  translate();
}

async function start() {
  const answer = await ask("models", "api/models");
  if (!answer) return;
  $("token-form").hidden = true;
  state.models = answer.models;
  state.maxSentences = answer.max_sentences;
  $("model").replaceChildren(
    ...answer.models.map(({ name }) => element("option", {}, name)),
  );
  say("");
  chooseModel();
}

// ---- Translation

// Returns the lines of a text with each sentence on a line of its own. Browsers
// from before 2024 may not be able to split.
function sentenceLines(text) {
  if (!Intl.Segmenter) return text.split("\n");
  const locale = source.lang || undefined;
  const segmenter = new Intl.Segmenter(locale, { granularity: "sentence" });
  return text.split("\n").flatMap((line) => {
    const found = [...segmenter.segment(line.trim())];
    return found.length ? found.map(({ segment }) => segment.trim()) : [""];
  });
}

async function translate() {
  drop("translate");
  closeAlternatives();
  closeView();
  const lines = source.value.split("\n");
  const rows = lines.flatMap((line, row) => (line.trim() ? [row] : []));
  $("clear").hidden = !source.value;
  $("split").hidden = sentenceLines(source.value).length === lines.length;
  if (!rows.length || rows.length > state.maxSentences) {
    show([], []);
    say("");
    if (rows.length) {
      say(`At most ${count(state.maxSentences, "line")} at a time.`, true);
    }
    return;
  }
  target.classList.add("waiting");
  const begin = performance.now();
  const answer = await ask("translate", modelPath("v1/models", ":predict"), {
    signature_name: "n_best",
    inputs: { sentences: rows.map((row) => lines[row]) },
  });
  if (answer === null) return;
  if (!answer) {
    show([], []);
    return;
  }
  const { translations, scores } = answer.outputs;
  const results = lines.map(() => []);
  rows.forEach((row, number) => {
    results[row] = translations[number]
      .map((text, rank) => ({ text, score: scores[number][rank] }))
      // What stands where fewer were found.
      .filter(({ score }) => score > -1e6);
  });
  say(`Translated in ${Math.round(performance.now() - begin)} ms.`);
  show(lines, results);
}

const best = () => state.results.map((results) => results[0]?.text ?? "");

function show(lines, results) {
  closeAlternatives();
  closeView();
  Object.assign(state, { lines, results });
  target.classList.remove("waiting");
  target.replaceChildren(...best().map(wordButtons));
  const first = target.querySelector("button");
  if (first) first.tabIndex = 0;
  $("copy").hidden = !first;
  chooseLine(caretRow());
  compare();
}

function wordButtons(text, row) {
  const line = element("p");
  line.dataset.row = row;
  for (const { 0: word, index } of text.matchAll(/\S+/g)) {
    const button = element("button", { type: "button", tabIndex: -1 }, word);
    button.ariaExpanded = "false";
    button.dataset.before = text.slice(0, index).trimEnd();
    line.append(index ? " " : "", button);
  }
  return line;
}

const caretRow = () =>
  source.value.slice(0, source.selectionStart).split("\n").length - 1;

// Shows the n-best list of a line, or else of the last filled one above it.
function chooseLine(row) {
  const filled = state.results.flatMap((found, i) => (found.length ? [i] : []));
  row = filled.findLast((number) => number <= row) ?? filled[0] ?? 0;
  if (row !== state.chosen) closeView();
  state.chosen = row;
  for (const line of target.children) {
    line.classList.toggle("chosen", Number(line.dataset.row) === row);
  }
  const results = state.results[row] ?? [];
  $("best").hidden = results.length < 2;
  $("best-line").textContent = filled.length > 1 ? `Line ${row + 1}. ` : "";
  $("best-list").replaceChildren(
    ...results.map(({ text, score }) => result(text, score)),
  );
  $("view-card").hidden = !results.length;
}

// ---- Other ways to continue

async function showAlternatives(button) {
  const row = Number(button.parentElement.dataset.row);
  chooseLine(row);
  closeAlternatives();
  button.ariaExpanded = "true";
  const prefix = button.dataset.before;
  const answer = await ask(
    "alternatives",
    modelPath("api/models", "/alternatives"),
    { sentence: state.lines[row], prefix },
  );
  if (!answer) return;
  $("alternatives-list").replaceChildren(
    ...answer.alternatives.map((found) => {
      const choose = element("button", { type: "button" });
      const kept = found.text.startsWith(prefix) ? prefix : "";
      const [, space, word, rest] = found.text
        .slice(kept.length)
        .match(/^(\s*)(\S*)(.*)$/s);
      choose.append(kept, space, element("mark", {}, word), rest);
      choose.addEventListener("click", () => take(row, found));
      return result(choose, found.score);
    }),
  );
  $("alternatives").hidden = false;
  $("alternatives").scrollIntoView({ block: "nearest" });
  say(`${count(answer.alternatives.length, "other way")} to continue.`);
}

// Puts a translation in the place of the one that is shown.
function take(row, found) {
  const others = state.results[row].filter(({ text }) => text !== found.text);
  state.results[row] = [found, ...others];
  show(state.lines, state.results);
  chooseLine(row);
  target.querySelector(`[data-row='${row}'] button`)?.focus();
}

// Returns the word that they belonged to.
function closeAlternatives() {
  drop("alternatives");
  $("alternatives").hidden = true;
  const open = target.querySelector("[aria-expanded='true']");
  if (open) open.ariaExpanded = "false";
  return open;
}

// ---- BLEU

async function compare() {
  drop("bleu");
  $("bleu").textContent = "";
  const references = $("reference").value.trimEnd().split("\n");
  const translations = best();
  while (translations.length && !translations.at(-1)) translations.pop();
  if (!$("reference").value.trim() || !translations.length) return;
  if (references.length !== translations.length) {
    $("signature").textContent =
      `The reference has ${count(references.length, "line")}, the ` +
      `translation ${translations.length}.`;
    return;
  }
  const answer = await ask("bleu", "api/bleu", { translations, references });
  if (!answer) return;
  const isOne = translations.length === 1;
  const value = isOne ? answer.sentences[0] : answer.bleu;
  $("bleu").textContent = `BLEU ${value.toFixed(1)}`;
  // A sentence has few n-grams.
  $("signature").textContent = isOne
    ? "BLEU of one sentence, effective order (sacreBLEU)."
    : `sacreBLEU ${answer.signature}`;
}

// ---- Attention

async function showView() {
  if (!$("view").hidden) {
    closeView();
    return;
  }
  say("Looking into the model …");
  const answer = await ask("view", modelPath("api/models", "/view"), {
    sentence: state.lines[state.chosen],
    translation: best()[state.chosen],
  });
  if (!answer) return;
  $("view").srcdoc = answer.html;
  const page = new Blob([answer.html], { type: "text/html" });
  $("view-link").href = URL.createObjectURL(page);
  $("view").hidden = $("view-link").hidden = false;
  $("show-view").textContent = "Hide";
  $("view").scrollIntoView({ block: "end" });
  say("");
}

function closeView() {
  drop("view");
  URL.revokeObjectURL($("view-link").href);
  $("view").hidden = $("view-link").hidden = true;
  $("view").removeAttribute("srcdoc");
  $("show-view").textContent = "Show";
}

// ---- Keys and clicks

function moveBetweenWords(event) {
  const steps = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
  const step = steps[event.key];
  const all = [...target.querySelectorAll("button")];
  const place = all.indexOf(event.target);
  if (!step || place < 0) return;
  event.preventDefault();
  const next = all[Math.min(Math.max(place + step, 0), all.length - 1)];
  event.target.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

async function copy() {
  try {
    await navigator.clipboard.writeText(best().join("\n"));
    say("Copied.");
  } catch {
    say("The browser does not let this page copy.", true);
  }
}

source.addEventListener("input", debounced(translate));
source.addEventListener("keyup", () => chooseLine(caretRow()));
source.addEventListener("click", () => chooseLine(caretRow()));
$("reference").addEventListener("input", debounced(compare));
$("model").addEventListener("change", chooseModel);
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
$("split").addEventListener("click", () => {
  source.value = sentenceLines(source.value).join("\n");
  translate();
  source.focus();
});
target.addEventListener("click", (event) => {
  const button = event.target.closest("button");
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
