// The two columns of tokens, and the terms of each row.

function renderTokens() {
  const { queries, keys } = kind();
  byId("pair-title").textContent = words().title;
  byId("pair-note").textContent = words().note + positionNote();
  byId("queries-title").textContent = words().asks;
  document.body.classList.toggle("no-position", !array("position_logits") &&
    !array("relation_shares"));
  byId("queries").replaceChildren(...queries.map((token, index) => {
    const item = make("li");
    item.setAttribute("role", "option");
    item.title = token.text;
    item.append(tokenText(token));
    item.addEventListener("pointerenter", (event) => {
      if (event.pointerType !== "touch" && !state.held) chooseQuery(index);
    });
    item.addEventListener("click", () => hold(index));
    return item;
  }));
  byId("keys").replaceChildren(...keys.map(keyRow));
}
function positionNote() {
  if (!hasDistance()) {
    return " Source and target have no distance: all of it is content.";
  }
  return POSITION_NOTES[data.model.position_terms];
}
function keyRow(token, index) {
  const line = make("tr");
  const head = make("th");
  const button = make("button");
  head.scope = "row";
  button.type = "button";
  button.title = token.text;
  button.append(tokenText(token), make("small"));
  button.addEventListener("focus", () => chooseKey(index));
  button.addEventListener("click", () => {
    chooseKey(index);
    announce();
  });
  head.append(button);
  line.append(head);
  const weight = make("td");
  const bar = make("div", "weight-bar");
  bar.append(make("span"));
  weight.append(cell(bar, make("div", "numbers")));
  line.append(weight);
  for (const className of ["logit", "output wide"]) {
    const box = make("td", className);
    const terms = make("div", "terms");
    terms.append(make("span", "zero"), make("span", "term content"),
      make("span", "term position"));
    const numbers = make("div", "numbers two");
    numbers.append(make("span", "is-content"), make("span", "is-position"));
    box.append(cell(terms, numbers));
    line.append(box);
  }
  line.addEventListener("pointerenter", (event) => {
    if (event.pointerType !== "touch") chooseKey(index);
  });
  return line;
}
function cell(...children) {
  const box = make("div", "cell");
  box.append(...children);
  return box;
}

function chooseQuery(index) {
  state.query = index;
  const scores = row("scores");
  state.key = scores.indexOf(Math.max(...scores));
  renderQuery();
}
function hold(index) {
  state.held = !(state.held && index === state.query);
  chooseQuery(index);
  byId("queries").children[index].focus();
  announce();
}
function chooseKey(index) {
  if (index >= numAllowed()) return;
  state.key = index;
  markKey();
}

function renderQuery() {
  [...byId("queries").children].forEach((item, index) => {
    const chosen = index === state.query;
    item.setAttribute("aria-selected", chosen);
    item.tabIndex = chosen ? 0 : -1;
    item.classList.toggle("held", chosen && state.held);
  });
  const scores = row("scores");
  const count = numAllowed();
  const logits = [row("content_logits"), row("position_logits")];
  const shares = [row("value_shares"), row("relation_shares")];
  const rows = [...byId("keys").children];
  rows.forEach((line, key) => {
    line.hidden = key >= count;
    line.querySelector("small").textContent =
      hasDistance() ? signed(key - state.query) : "";
    line.querySelector(".weight-bar span").style.width =
      `${100 * scores[key]}%`;
    line.querySelector("td .numbers").textContent = percent(scores[key]);
    line.classList.toggle("chosen", key === state.key);
  });
  const shown = rows.slice(0, count);
  setTerms(shown, ".logit", logits, decimal);
  setTerms(shown, ".output", shares, percent);
  byId("caption").textContent = `What ${quote(kind().queries[state.query])} ` +
    `looks at in block ${state.block + 1}, head ${state.head + 1}`;
  renderOutput(shares);
  markKey();
}
// Two bars a row, all on one scale, from a common zero line.
function setTerms(rows, selector, terms, write) {
  const ends = terms.filter(Boolean).map((term) => [...term.slice(0, rows.length)]);
  const low = Math.min(0, ...ends.flat());
  const width = Math.max(0, ...ends.flat()) - low || 1;
  rows.forEach((line, key) => {
    const box = line.querySelector(selector);
    box.querySelector(".zero").style.left = `${(100 * -low) / width}%`;
    terms.forEach((term, index) => {
      const side = ["content", "position"][index];
      const bar = box.querySelector(`.term.${side}`);
      const text = box.querySelector(`.is-${side}`);
      bar.hidden = text.hidden = !term;
      if (!term) return;
      bar.style.left = `${(100 * (Math.min(0, term[key]) - low)) / width}%`;
      bar.style.width = `${(100 * Math.abs(term[key])) / width}%`;
      text.textContent = write(term[key]);
    });
  });
}
