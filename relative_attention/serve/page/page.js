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
  // For each line of the text its indentation, and its sentences with their
  // translations, each a text and a score.
  lines: [],
  // The sentence whose translations and attention are shown.
  chosen: undefined,
  // The word whose other ways to continue are shown.
  word: undefined,
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
  const number = element("span", { className: "score" }, shown);
  return element("li", { dir: "auto" }, text, number);
}

// ---- Models and their languages

const languageNames = new Intl.DisplayNames("en", { type: "language" });

const chosenModel = () =>
  state.models.find(({ name }) => name === $("model").value);

function optionOf({ name, languages }) {
  const [from, to] = languages.map((code) => languageNames.of(code));
  const label = from ? `${from} \u2192 ${to} (${name})` : name;
  return element("option", { value: name }, label);
}

// The model for the other direction whose name is most like this one's.
function opposite(model) {
  const wanted = model.languages.toReversed().join();
  const alike = ({ name }) => {
    let same = 0;
    while (same < name.length && name[same] === model.name[same]) same += 1;
    return same;
  };
  return state.models
    .filter(({ languages }) => wanted && languages.join() === wanted)
    .sort((one, other) => alike(other) - alike(one))[0];
}

function chooseModel() {
  const model = chosenModel();
  const [from, to] = model.languages.map((code) => languageNames.of(code));
  $("about").textContent = model.description;
  document.querySelector("label[for='source']").textContent = from
    ? `Text in ${from}`
    : "Text";
  $("unit").textContent = model.splits_sentences
    ? "Each sentence is translated on its own."
    : "Each line is translated as a whole.";
  $("target-title").textContent = to ? `Translation to ${to}` : "Translation";
  $("swap").hidden = !opposite(model);
  // Which voice reads them, and how they are hyphenated. Empty: not known.
  const [code, otherCode] = [...model.languages, "", ""];
  source.lang = $("examples").lang = code;
  for (const id of ["target", "alternatives-list", "best-list", "reference"]) {
    $(id).lang = otherCode;
  }
  showExamples(model.examples);
  showLicense(model.license);
  translate();
}

function showExamples(examples) {
  $("examples").replaceChildren(
    ...examples.map((text) => {
      const button = element("button", { type: "button", dir: "auto" }, text);
      button.addEventListener("click", () => fill(text));
      return button;
    }),
  );
}

function showLicense({ title = "", attribution = "", paragraphs = [] }) {
  $("license").hidden = !title;
  $("license-title").textContent = title;
  $("license-text").replaceChildren(
    ...paragraphs.map((text) => element("p", {}, text)),
  );
  $("attribution").textContent = attribution;
}

function fill(text) {
  source.value = text;
  translate();
  source.focus();
}

// Translates back what is shown, if anything is.
function swapLanguages() {
  const shown = best().join("\n");
  $("model").value = opposite(chosenModel()).name;
  if (shown) source.value = shown;
  chooseModel();
}

async function start() {
  const answer = await ask("models", "api/models");
  if (!answer) return;
  $("token-form").hidden = true;
  state.models = answer.models;
  state.maxSentences = answer.max_sentences;
  $("reference-card").hidden = !answer.has_bleu;
  $("model").replaceChildren(...answer.models.map(optionOf));
  say("");
  chooseModel();
}

// ---- Translation

async function translate() {
  drop("translate");
  closeAlternatives();
  closeView();
  showTyped();
  const lines = source.value.split("\n");
  const filled = filledRows(lines);
  const rows = filled.slice(0, state.maxSentences);
  if (!rows.length) {
    show([]);
    say("");
    return;
  }
  target.classList.add("waiting");
  const begin = performance.now();
  const answer = await ask(
    "translate",
    modelPath("api/models", "/translate"),
    { lines: rows.map((row) => lines[row]) },
  );
  if (answer === null) return;
  if (!answer) {
    show([]);
    return;
  }
  // Lines without text stay empty, and each line keeps its indentation.
  const shown = lines.map(() => ({ indent: "", sentences: [] }));
  answer.lines.forEach((sentences, number) => {
    const row = rows[number];
    shown[row] = { indent: lines[row].match(/^\s*/)[0], sentences };
  });
  show(shown);
  const milliseconds = Math.round(performance.now() - begin);
  const number = count(allSentences().length, "sentence");
  const done = `${number} translated in ${milliseconds} ms.`;
  const problems = problemsOf(filled.length - answer.lines.length, answer);
  say([problems || done, unsureOnes()].join(" ").trim(), problems !== "");
}

const filledRows = (lines) =>
  lines.flatMap((line, row) => (line.trim() ? [row] : []));

// Says as one types how much is left of what the server takes.
function showTyped() {
  const number = filledRows(source.value.split("\n")).length;
  const isNear = number > 0.75 * state.maxSentences;
  $("count").textContent = isNear
    ? `${number} of at most ${count(state.maxSentences, "line")}`
    : "";
  $("count").classList.toggle("error", number > state.maxSentences);
  $("clear").hidden = !source.value;
  $("examples").hidden = Boolean(source.value) || !$("examples").children.length;
}

function problemsOf(numMissing, { max_tokens }) {
  const problems = [];
  if (numMissing) {
    const last = numMissing > 1 ? `last ${numMissing} lines are` : "last line is";
    problems.push(`The text is too long: its ${last} not translated.`);
  }
  const cut = linesWith((sentence) => sentence.was_cut);
  if (cut) {
    problems.push(
      `Not all is translated: a sentence was cut after ${max_tokens} tokens, ` +
        `on ${cut}.`,
    );
  }
  return problems.join(" ");
}

function unsureOnes() {
  const number = allSentences().filter(isUnsure).length;
  if (!number) return "";
  const which = linesWith(isUnsure);
  return `The model is unsure of ${count(number, "sentence")}, on ${which}.`;
}

// The numbers of the lines that have such a sentence.
function linesWith(hasIt) {
  const numbers = state.lines.flatMap(({ sentences }, row) =>
    sentences.some(hasIt) ? [row + 1] : [],
  );
  if (!numbers.length) return "";
  return `line${numbers.length > 1 ? "s" : ""} ${numbers.join(", ")}`;
}

const isUnsure = (sentence) => sentence.translations[0].is_unsure;
const textOf = (sentence) => sentence.translations[0].text;
const allSentences = () => state.lines.flatMap(({ sentences }) => sentences);
const best = () =>
  state.lines.map(
    ({ indent, sentences }) =>
      indent +
      sentences.map((one) => one.before + textOf(one) + one.after).join(""),
  );

function show(lines) {
  closeAlternatives();
  closeView();
  state.lines = lines;
  target.classList.remove("waiting");
  target.replaceChildren(
    ...lines.map(({ indent, sentences }, row) => {
      const line = element("p", { dir: "auto" }, indent);
      line.dataset.row = row;
      sentences.forEach((sentence, place) =>
        line.append(
          sentence.before,
          shownSentence(sentence, place),
          sentence.after,
        ),
      );
      return line;
    }),
  );
  const first = target.querySelector("button");
  if (first) first.tabIndex = 0;
  $("copy").hidden = !allSentences().length;
  $("choose-words").hidden = !target.querySelector(".word");
  chooseRow(caretRow());
  compare();
}

const choosesWords = () => $("choose-words").ariaPressed === "true";

// A sentence is text, so that it is read as text. Its words can be clicked if it
// was searched as it is shown; for the keyboard they become buttons.
function shownSentence(sentence, place) {
  const shown = element("span", { className: "sentence" });
  shown.dataset.place = place;
  if (isUnsure(sentence)) {
    shown.classList.add("unsure");
    shown.title = "The model is unsure of this sentence.";
  }
  if (!sentence.is_plain) {
    shown.append(textOf(sentence));
    return shown;
  }
  for (const { 0: text, index } of textOf(sentence).matchAll(/\S+/g)) {
    const word = choosesWords()
      ? element("button", { type: "button", tabIndex: -1 }, text)
      : element("span", {}, text);
    if (choosesWords()) word.ariaExpanded = "false";
    word.className = "word";
    word.dataset.before = textOf(sentence).slice(0, index).trimEnd();
    shown.append(index ? " " : "", word);
  }
  return shown;
}

// Makes the words buttons, or text again.
function chooseWords(isOn) {
  const { chosen } = state;
  $("choose-words").ariaPressed = String(isOn);
  show(state.lines);
  if (chosen) choose(chosen);
  focusOn(target.querySelector(".sentence.chosen .word"));
}

// Text cannot be focused.
function focusOn(word) {
  (word?.matches("button") ? word : $("choose-words")).focus();
}

function sentenceOf(shown) {
  const { row } = shown.closest("p").dataset;
  const { place } = shown.closest(".sentence").dataset;
  return state.lines[row].sentences[place];
}

const caretRow = () =>
  source.value.slice(0, source.selectionStart).split("\n").length - 1;

// Chooses a sentence of a line, or else of the last filled one above it.
function chooseRow(row) {
  const filled = state.lines.flatMap(({ sentences }, number) =>
    sentences.length ? [number] : [],
  );
  row = filled.findLast((number) => number <= row) ?? filled[0];
  const { sentences } = state.lines[row] ?? { sentences: [] };
  choose(sentences.includes(state.chosen) ? state.chosen : sentences[0]);
}

// Shows the n-best list of a sentence.
function choose(sentence) {
  if (sentence !== state.chosen) closeView();
  state.chosen = sentence;
  const row = state.lines.findIndex(({ sentences }) =>
    sentences.includes(sentence),
  );
  for (const line of target.children) {
    line.classList.toggle("chosen", Number(line.dataset.row) === row);
    for (const shown of line.children) {
      shown.classList.toggle("chosen", sentenceOf(shown) === sentence);
    }
  }
  const results = sentence?.translations ?? [];
  $("best").hidden = results.length < 2;
  $("best-line").textContent =
    allSentences().length > 1 && sentence
      ? `\u201c${sentence.sentence}\u201d `
      : "";
  $("best-list").replaceChildren(
    ...results.map(({ text, score }) => result(text, score)),
  );
  $("view-card").hidden =
    !sentence || !sentence.is_plain || !chosenModel().has_attention;
}

// ---- Other ways to continue

async function showAlternatives(word) {
  const sentence = sentenceOf(word);
  choose(sentence);
  closeAlternatives();
  state.word = word;
  word.classList.add("open");
  if (choosesWords()) word.ariaExpanded = "true";
  const prefix = word.dataset.before;
  const answer = await ask(
    "alternatives",
    modelPath("api/models", "/alternatives"),
    { sentence: sentence.sentence, prefix },
  );
  if (!answer) return;
  $("alternatives-list").replaceChildren(
    ...answer.alternatives.map((found) => {
      const other = element("button", { type: "button" });
      const kept = found.text.startsWith(prefix) ? prefix : "";
      const [, space, word, rest] = found.text
        .slice(kept.length)
        .match(/^(\s*)(\S*)(.*)$/s);
      other.append(kept, space, element("mark", {}, word), rest);
      other.addEventListener("click", () => take(sentence, found));
      return result(other, found.score);
    }),
  );
  $("alternatives").hidden = false;
  // They may cover the word.
  const { bottom } = word.getBoundingClientRect();
  const { top } = $("alternatives").getBoundingClientRect();
  if (bottom > top) scrollBy(0, bottom - top + 8);
  say(`${count(answer.alternatives.length, "other way")} to continue.`);
}

// Puts a translation in the place of the one that is shown.
function take(sentence, found) {
  const others = sentence.translations.filter(({ text }) => text !== found.text);
  sentence.translations = [found, ...others];
  show(state.lines);
  choose(sentence);
  focusOn(target.querySelector(".sentence.chosen .word"));
}

// Returns the word that they belonged to.
function closeAlternatives() {
  drop("alternatives");
  $("alternatives").hidden = true;
  const { word } = state;
  state.word = undefined;
  word?.classList.remove("open");
  if (word?.ariaExpanded) word.ariaExpanded = "false";
  return word;
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
      `Yours has ${count(references.length, "line")}, the translation ` +
      `${translations.length}.`;
    return;
  }
  const answer = await ask("bleu", "api/bleu", { translations, references });
  if (!answer) return;
  const isOne = translations.length === 1;
  const value = isOne ? answer.sentences[0] : answer.bleu;
  $("bleu").textContent = `BLEU ${value.toFixed(1)}`;
  // A sentence has few n-grams.
  $("signature").textContent = isOne
    ? "This is of one sentence, with effective order (sacreBLEU)."
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
    sentence: state.chosen.sentence,
    translation: textOf(state.chosen),
  });
  if (!answer) return;
  $("view").srcdoc = answer.html;
  const page = new Blob([answer.html], { type: "text/html" });
  $("view-link").href = URL.createObjectURL(page);
  $("view").hidden = $("view-link").hidden = false;
  $("show-view").textContent = "Hide";
  $("view-card").scrollIntoView();
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
  const isRtl = getComputedStyle(event.target).direction === "rtl";
  const isArrow = event.key.startsWith("Arrow");
  const step = steps[event.key] * (isRtl && isArrow ? -1 : 1);
  const all = [...target.querySelectorAll("button")];
  const place = all.indexOf(event.target);
  if (!step || place < 0) return;
  event.preventDefault();
  all[Math.min(Math.max(place + step, 0), all.length - 1)].focus();
}

// Of all words, the Tab key stops at the one that had the focus last.
function keepTabStop({ target: word }) {
  if (!word.matches("button")) return;
  for (const other of target.querySelectorAll("button")) other.tabIndex = -1;
  word.tabIndex = 0;
}

async function copy() {
  try {
    await navigator.clipboard.writeText(best().join("\n"));
    say("Copied.");
  } catch {
    say("The browser does not let this page copy.", true);
  }
}

source.addEventListener("input", showTyped);
source.addEventListener("input", debounced(translate));
source.addEventListener("keyup", () => chooseRow(caretRow()));
source.addEventListener("click", () => chooseRow(caretRow()));
$("reference").addEventListener("input", debounced(compare));
$("model").addEventListener("change", chooseModel);
$("copy").addEventListener("click", copy);
$("show-view").addEventListener("click", showView);
$("close-alternatives").addEventListener("click", () =>
  focusOn(closeAlternatives()),
);
$("choose-words").addEventListener("click", () => chooseWords(!choosesWords()));
// Outside of its sandbox nobody can measure what is in the frame.
addEventListener("message", (event) => {
  if (event.source === $("view").contentWindow && event.data.height > 0) {
    $("view").style.height = `${event.data.height}px`;
  }
});
$("clear").addEventListener("click", () => fill(""));
$("swap").addEventListener("click", swapLanguages);
target.addEventListener("click", (event) => {
  const word = event.target.closest(".word");
  const shown = event.target.closest(".sentence");
  const line = event.target.closest("p");
  if (word) showAlternatives(word);
  else if (shown) choose(sentenceOf(shown));
  else if (line) chooseRow(Number(line.dataset.row));
});
target.addEventListener("keydown", moveBetweenWords);
target.addEventListener("focusin", keepTabStop);
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (state.word) focusOn(closeAlternatives());
  else if (target.contains(document.activeElement)) chooseWords(false);
});
$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN_KEY, $("token").value.trim());
  $("token").value = "";
  start();
});
start();
