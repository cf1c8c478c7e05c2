// Shows the numbers in the element `data`, see `attention_view.py`.
// "Queries" are the tokens on the left, which look; "keys" those on the right.

const data = JSON.parse(document.getElementById("data").textContent);
const limit = data.model.max_relative_position;

const HEAD_COLORS = ["#2f7de1", "#e07b1a", "#2a9d6f", "#d6457a", "#8a63d2",
  "#a5852b", "#1a9fb5", "#8b8f99"];
const headColor = (head) => HEAD_COLORS[head % HEAD_COLORS.length];
const KINDS = {
  encoder: { label: "Encoder", title: "Encoder self-attention",
    asks: "source token",
    note: "Each source token (left) gathers from all source tokens (right)." },
  decoder: { label: "Decoder", title: "Decoder self-attention",
    asks: "choosing",
    note: "To choose each token (left), the decoder looks at what it has " +
      "written so far (right)." },
  cross: { label: "Cross", title: "Cross-attention",
    asks: "choosing",
    note: "To choose each token (left), the decoder looks at the source " +
      "(right)." },
};
// By where positions are in the logits.
const POSITION_NOTES = {
  apart: "",
  mixed: " Positions change the queries and keys of this model, so content " +
    "and position cannot be told apart: all of a logit counts as content.",
  embeddings: " This model knows positions from its embeddings alone, so " +
    "all of a logit counts as content.",
  none: " This model knows no positions: all of a logit is content.",
};

// === What is chosen ===

// `held`: whether the query stays while the pointer moves. `heads` holds
// several heads of the block when they are compared.
const state = { kind: 0, block: 0, head: 0, query: 0, key: 0, held: false,
  heads: new Set([0]) };
const kind = () => data.kinds[state.kind];
const isCausal = () => kind().name === "decoder";
const hasDistance = () => kind().name !== "cross";
const numAllowed = () => isCausal() ? state.query + 1 : kind().keys.length;

function chooseKind(index) {
  Object.assign(state, { kind: index, held: false });
  state.block = Math.min(state.block, kind().blocks.length - 1);
  renderKinds();
  renderHeads();
  renderTokens();
  // The first tokens often show little.
  chooseQuery(Math.min(2, kind().queries.length - 1));
}
function chooseHead(block, head, add) {
  if (!add || block !== state.block) {
    Object.assign(state, { block, head, heads: new Set([head]) });
  } else if (state.heads.has(head) && state.heads.size > 1) {
    state.heads.delete(head);
    if (state.head === head) [state.head] = state.heads;
  } else {
    state.heads.add(head);
    state.head = head;
  }
  markHeads();
  renderQuery();
  announce();
}
function chooseQuery(index) {
  state.query = index;
  const scores = row("scores");
  state.key = scores.indexOf(Math.max(...scores));
  renderQuery();
}
function holdQuery(index) {
  state.held = !(state.held && index === state.query);
  chooseQuery(index);
  byId("queries").children[index].focus();
  announce();
}
function chooseKey(index) {
  if (index >= numAllowed()) return;
  state.key = index;
  renderKey();
}

// === Numbers ===

// Reads what `_packed` wrote; the last axis changes fastest.
function unpack({ data: text, scale, shape }) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const integers = new Int16Array(bytes.buffer);
  const numbers = Float32Array.from(integers, (n) => n * scale);
  const [, rows, columns] = shape;
  // A row of (heads, rows, columns).
  const row = (head, i) => {
    const start = (head * rows + i) * columns;
    return numbers.subarray(start, start + columns);
  };
  return { numbers, shape, row };
}
const unpacked = new Map();
// An array of a block, undefined if the model has none.
function array(name, block = state.block) {
  const packed = kind().blocks[block][name];
  if (packed && !unpacked.has(packed)) unpacked.set(packed, unpack(packed));
  return unpacked.get(packed);
}
const row = (name, head = state.head, query = state.query) =>
  array(name)?.row(head, query);
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const mean = (numbers) => sum(numbers) / numbers.length;
const greatest = (numbers) => numbers.reduce((a, b) => Math.max(a, b), 0);
const least = (numbers) => numbers.reduce((a, b) => Math.min(a, b), 0);
const clip = (d) => Math.max(-limit, Math.min(limit, d));
// With a minus sign, but not before zero.
const minus = (text) =>
  Number(text) ? text.replace("-", "\u2212") : text.replace("-", "");
const decimal = (x) => minus(x.toFixed(2));
const percent = (x) =>
  minus((100 * x).toFixed(Math.abs(x) < 0.0995 ? 1 : 0)) + "%";
const signed = (n) => (n > 0 ? `+${n}` : minus(String(n)));

// === Elements; text is always set as text ===

const byId = (id) => document.getElementById(id);
function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}
function makeSvg(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) {
    element.setAttribute(key, value);
  }
  return element;
}
const clone = (id) => byId(id).content.firstElementChild.cloneNode(true);
// Fills an element with strings, elements, and pairs of class and string.
function fill(element, parts) {
  element.replaceChildren(...parts.map((part) =>
    Array.isArray(part) ? make("span", part[0], part[1]) : part));
}
// SentencePiece marks the space before a word by U+2581.
const name = (token) => token.text.replace(/^\u2581+(?=.)/, "");
const quote = (token) => `\u201c\u2068${name(token)}\u2069\u201d`;
function tokenText(token) {
  if (token.special) return make("bdi", "special", token.text);
  const text = make("bdi");
  const mark = token.text.slice(0, token.text.length - name(token).length);
  fill(text, mark ? [["mark-space", mark], name(token)] : [name(token)]);
  return text;
}
// The red, green and blue of a color of the style.
function color(variable) {
  const probe = make("span");
  probe.style.color = `var(--${variable})`;
  document.body.append(probe);
  const rgb = getComputedStyle(probe).color.match(/[\d.]+/g).map(Number);
  probe.remove();
  return rgb;
}
// Paints columns x rows pixels; `shade(x, y)` is a color and its strength.
function paint(canvas, columns, rows, shade) {
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  for (let y = 0; y < rows; y++) {
    for (let x = 0; x < columns; x++) {
      const [[r, g, b], strength] = shade(x, y);
      image.data.set([r, g, b, 255 * strength], 4 * (y * columns + x));
    }
  }
  context.putImageData(image, 0, 0);
}

// === Kinds and heads ===

function renderKinds() {
  byId("kinds").replaceChildren(...data.kinds.map((one, index) => {
    const button = make("button", "", KINDS[one.name].label);
    const chosen = index === state.kind;
    button.type = "button";
    button.setAttribute("role", "radio");
    button.setAttribute("aria-checked", chosen);
    button.tabIndex = chosen ? 0 : -1;
    button.addEventListener("click", () => {
      chooseKind(index);
      byId("kinds").children[index].focus();
    });
    return button;
  }));
}
function renderHeads() {
  const heads = data.model.num_heads;
  const box = byId("heads");
  const cells = [make("span")];
  box.style.gridTemplateColumns = `auto repeat(${heads}, minmax(26px, 74px))`;
  for (let head = 0; head < heads; head++) {
    cells.push(make("span", "number", head + 1));
  }
  kind().blocks.forEach((_, block) => {
    cells.push(make("span", "number", block + 1));
    for (let head = 0; head < heads; head++) {
      cells.push(headButton(block, head));
    }
  });
  box.replaceChildren(...cells);
  markHeads();
}
function headButton(block, head) {
  const button = clone("head");
  const [canvas, bar] = button.children;
  const share = kind().blocks[block].position_shares[head];
  bar.firstElementChild.style.width = `${100 - 100 * share}%`;
  bar.lastElementChild.style.width = `${100 * share}%`;
  bar.hidden = !array("position_logits", block);
  Object.assign(button.dataset, { block, head });
  button.title = `block ${block + 1}, head ${head + 1}` +
    (bar.hidden ? "" : `, ${percent(share)} by position`);
  button.setAttribute("aria-label", button.title);
  button.addEventListener("click", () =>
    chooseHead(block, head, byId("compare").checked));
  const scores = array("scores", block);
  const ink = color("ink");
  const [, rows, columns] = scores.shape;
  paint(canvas, columns, rows, (x, y) =>
    [ink, Math.sqrt(scores.row(head, y)[x])]);
  return button;
}
function markHeads() {
  const several = state.heads.size > 1;
  for (const button of byId("heads").querySelectorAll("button")) {
    const head = Number(button.dataset.head);
    const here = Number(button.dataset.block) === state.block;
    const active = here && head === state.head;
    button.setAttribute("aria-pressed", here && state.heads.has(head));
    button.classList.toggle("active", active);
    button.tabIndex = active ? 0 : -1;
    button.style.setProperty(
      "--head", several ? headColor(head) : "var(--focus)");
  }
  const share = kind().blocks[state.block].position_shares[state.head];
  const title = `Block ${state.block + 1}, head ${state.head + 1}`;
  fill(byId("heads-note"), !array("position_logits") ? [`${title}.`] : [
    `${title}: what it prefers is `,
    ["is-content", `${percent(1 - share)} content`], " and ",
    ["is-position", `${percent(share)} position`], ", as its bar says.",
  ]);
}

// === The two columns of tokens, and the terms of each row ===

function renderTokens() {
  const { queries, keys } = kind();
  const words = KINDS[kind().name];
  byId("pair-title").textContent = words.title;
  byId("pair-note").textContent = words.note + (hasDistance()
    ? POSITION_NOTES[data.model.position_terms]
    : " Source and target have no distance: all of it is content.");
  byId("queries-title").textContent = words.asks;
  document.body.classList.toggle("no-position",
    !array("position_logits") && !array("relation_shares"));
  byId("queries").replaceChildren(...queries.map((token, index) => {
    const item = make("li");
    item.setAttribute("role", "option");
    item.title = token.text;
    item.append(tokenText(token));
    item.addEventListener("pointerenter", (event) => {
      if (event.pointerType !== "touch" && !state.held) chooseQuery(index);
    });
    item.addEventListener("click", () => holdQuery(index));
    return item;
  }));
  byId("keys").replaceChildren(...keys.map((token, index) => {
    const line = clone("key");
    const button = line.querySelector("button");
    button.title = token.text;
    button.prepend(tokenText(token));
    button.addEventListener("focus", () => chooseKey(index));
    button.addEventListener("click", () => {
      chooseKey(index);
      announce();
    });
    line.addEventListener("pointerenter", (event) => {
      if (event.pointerType !== "touch") chooseKey(index);
    });
    return line;
  }));
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
  const lines = [...byId("keys").children];
  lines.forEach((line, key) => {
    line.hidden = key >= count;
    line.querySelector("small").textContent =
      hasDistance() ? signed(key - state.query) : "";
    line.querySelector(".weight-bar span").style.width =
      `${100 * scores[key]}%`;
    line.querySelector("td .numbers").textContent = percent(scores[key]);
  });
  const shares = [row("value_shares"), row("relation_shares")];
  const logits = [row("content_logits"), row("position_logits")];
  renderTerms(lines.slice(0, count), ".logit", logits, decimal);
  renderTerms(lines.slice(0, count), ".output", shares, percent);
  byId("caption").textContent = `What ${quote(kind().queries[state.query])} ` +
    `looks at in block ${state.block + 1}, head ${state.head + 1}`;
  renderOutput(...shares);
  renderKey();
}
// Draws two bars in each row, on one scale, from a common zero line.
function renderTerms(lines, selector, terms, write) {
  const all = terms.filter(Boolean).flatMap((term) =>
    [...term.slice(0, lines.length)]);
  const low = least(all);
  const width = greatest(all) - low || 1;
  lines.forEach((line, key) => {
    const box = line.querySelector(selector);
    box.querySelector(".zero").style.left = `${(100 * -low) / width}%`;
    ["content", "position"].forEach((side, index) => {
      const term = terms[index];
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

// === The chosen pair, and the output of the query ===

function renderKey() {
  [...byId("keys").children].forEach((line, index) => {
    line.classList.toggle("chosen", index === state.key);
    line.querySelector("button").tabIndex = index === state.key ? 0 : -1;
  });
  renderPair();
  renderDistance();
  renderLines();
}
function renderPair() {
  const at = (name) => row(name)?.[state.key];
  const [content, position] = [at("content_logits"), at("position_logits")];
  const [value, relation] = [at("value_shares"), at("relation_shares")];
  const { queries, keys } = kind();
  byId("edge-title").textContent =
    `${quote(queries[state.query])} looks at ${quote(keys[state.key])}`;
  const terms = [];
  if (hasDistance()) {
    const distance = state.key - state.query;
    const clipped = limit !== null && clip(distance) !== distance
      ? `, clipped to ${signed(clip(distance))}` : "";
    terms.push(["distance", [signed(distance) + clipped]]);
  }
  terms.push(["logit", position === undefined
    ? [["is-content", decimal(content)], " content"]
    : [`${decimal(content + position)} = `, ["is-content", decimal(content)],
      " content + ", ["is-position", decimal(position)], " position"]]);
  terms.push(["weight", [percent(at("scores"))]]);
  terms.push(["of the output", relation === undefined
    ? [["is-content", percent(value)], " by its value"]
    : [["is-content", percent(value)], " by its value, ",
      ["is-position", percent(relation)], " by distance"]]);
  byId("edge").replaceChildren(...terms.flatMap(([term, parts]) => {
    const text = make("dd");
    fill(text, parts);
    return [make("dt", "", term), text];
  }));
}
function renderOutput(values, relations) {
  const [content, position] = [sum(values), relations ? sum(relations) : 0];
  const [left, right] = document.querySelectorAll(".stacked span");
  const whole = Math.max(0, content) + Math.max(0, position) || 1;
  left.style.width = `${(100 * Math.max(0, content)) / whole}%`;
  right.style.width = `${(100 * Math.max(0, position)) / whole}%`;
  const symbol = make("var", "", "a");
  symbol.append(make("sup", "", "V"));
  const text = [["is-content", percent(content)], " came through the values"];
  fill(byId("output"), relations
    ? [...text, ", ", ["is-position", percent(position)], " through ", symbol,
      ", what distance adds to them."]
    : [...text, ": nothing is added to them by distance."]);
}

// === The lines between the columns ===

function renderLines() {
  const box = byId("lines").getBoundingClientRect();
  const middle = (element) => {
    const { top, height } = element.getBoundingClientRect();
    return top + height / 2 - box.top;
  };
  const from = [...byId("queries").children].map(middle);
  const to = [...byId("keys").children].map(middle);
  const bend = box.width / 2;
  const line = (query, key, shift, width, opacity, stroke) => {
    const [a, b] = [from[query] + shift, to[key] + shift];
    const path = makeSvg("path", {
      d: `M0 ${a} C${bend} ${a} ${bend} ${b} ${box.width} ${b}`,
      "stroke-width": width, opacity,
    });
    path.style.stroke = stroke;
    return path;
  };
  const paths = [];
  kind().queries.forEach((_, query) => {
    if (query === state.query) return;
    row("scores", state.head, query).forEach((weight, key) => {
      if (weight > 0.1 && key < numAllowed()) {
        paths.push(line(query, key, 0, 1, 0.16 * weight, "var(--ink)"));
      }
    });
  });
  [...state.heads].forEach((head, index, { length }) => {
    const shift = 3 * (index - (length - 1) / 2);
    row("scores", head).forEach((weight, key) => {
      if (weight < 0.005 || key >= numAllowed()) return;
      const path = line(state.query, key, shift, 1 + 9 * weight,
        0.25 + 0.7 * weight, length > 1 ? headColor(head) : termColor(key));
      path.dataset.key = key;
      paths.push(path);
    });
  });
  byId("lines").replaceChildren(...paths);
}
// Mixes the colors of the terms that lift a key above the average one.
function termColor(key) {
  const [content, position] = ["content_logits", "position_logits"].map(
    (term) => {
      const logits = row(term)?.subarray(0, numAllowed());
      return logits ? Math.max(0, logits[key] - mean(logits)) : 0;
    });
  const part = Math.round((100 * position) / (content + position || 1));
  return `color-mix(in oklab, var(--position) ${part}%, var(--content))`;
}

// === What distance adds, and the relation tables of the head ===

function renderDistance() {
  const tables = { key: array("key_table"), value: array("value_table") };
  const box = byId("distance");
  const note = byId("distance-note");
  box.hidden = !tables.key && !tables.value;
  if (box.hidden) {
    note.textContent = hasDistance()
      ? "These layers have no table with a row for each distance."
      : "Attention to the source has no relation tables.";
    return;
  }
  const columns = 2 * limit + 1;
  box.style.maxWidth = `${240 + 56 * columns}px`;
  const first = clip(-state.query) + limit;
  const last = clip(numAllowed() - 1 - state.query) + limit;
  const marked = clip(state.key - state.query) + limit;
  const place = (element, from, to) => {
    element.style.left = `${(100 * from) / columns}%`;
    element.style.width = `${(100 * (to - from)) / columns}%`;
  };
  place(box.querySelector(".reach"), first, last + 1);
  place(box.querySelector(".mark"), marked, marked + 1);
  const reached = (x) => x >= first && x <= last;
  renderTable("key", tables.key, reached);
  renderTable("value", tables.value, reached);
  const adds = renderBars(columns, reached);
  const [left, , right] = box.querySelector(".axis").children;
  left.textContent = limit ? `\u2264 \u2212${limit}` : "";
  right.textContent = limit ? `\u2265 +${limit}` : "";
  const token = quote(kind().queries[state.query]);
  note.textContent = (adds ? "What the table of keys adds to a logit of " +
    `${token}, by distance in tokens; a dash is the mean of all tokens here. `
    : "") + "Shaded: where its keys lie. Marked: distance " +
    signed(marked - limit) + (adds ? `, which adds ${decimal(adds[marked])}.`
    : ".");
  byId("plot").setAttribute("aria-label", note.textContent);
}
// Draws what each distance adds to the logits of the query, and returns it.
function renderBars(columns, reached) {
  const logits = array("distance_logits");
  const svg = byId("bars");
  const ticks = byId("plot").querySelectorAll(".tick");
  svg.style.display = logits ? "" : "none";
  ticks.forEach((tick) => { tick.hidden = !logits; });
  if (!logits) return null;
  const rows = kind().queries.map((_, query) => logits.row(state.head, query));
  const mine = [...rows[state.query]];
  const means = mine.map((_, x) => mean(rows.map((r) => r[x])));
  // One scale for all tokens, so that they can be compared.
  const low = Math.min(...rows.map(least));
  const high = Math.max(...rows.map(greatest));
  const y = (number) => (100 * (high - number)) / (high - low || 1);
  const line = (className, x1, x2, number) => makeSvg("line",
    { class: className, x1, x2, y1: y(number), y2: y(number) });
  svg.setAttribute("viewBox", `0 0 ${columns} 100`);
  svg.replaceChildren(
    ...mine.map((number, x) => makeSvg("rect", {
      class: `bar-of ${reached(x) ? "" : "out"}`, x: x + 0.14, width: 0.72,
      y: Math.min(y(number), y(0)), height: Math.abs(y(number) - y(0)),
    })),
    line("axis-line", 0, columns, 0),
    ...means.map((number, x) => line("mean", x + 0.2, x + 0.8, number)));
  const height = svg.getBoundingClientRect().height / 100;
  [high, 0, low].forEach((number, index) => {
    ticks[index].style.top = `${y(number) * height - 6}px`;
    ticks[index].textContent = number ? decimal(number) : "0";
    // The others are hidden where they would touch the zero.
    ticks[index].hidden =
      index !== 1 && Math.abs(y(number) - y(0)) * height < 12;
  });
  return mine;
}
function renderTable(side, table, reached) {
  const canvas = byId(`${side}-table`);
  canvas.hidden = byId(`${side}-label`).hidden = !table;
  if (!table) return;
  const isPerHead = table.shape.length === 3;
  const [distances, size] = table.shape.slice(-2);
  const start = isPerHead ? state.head * distances * size : 0;
  const numbers = table.numbers.subarray(start, start + distances * size);
  const most = greatest(numbers.map(Math.abs)) || 1;
  const [less, more] = [color("less"), color("more")];
  paint(canvas, distances, size, (x, y) => {
    const number = numbers[x * size + y] / most;
    return [number < 0 ? less : more,
      Math.abs(number) ** 0.7 * (reached(x) ? 1 : 0.35)];
  });
}

// === Screen readers, keyboard and themes ===

let waiting;
function announce() {
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    const best = [...row("scores").entries()]
      .sort((a, b) => b[1] - a[1]).slice(0, 3)
      .map(([key, weight]) => `${name(kind().keys[key])} ${percent(weight)}`);
    byId("live").textContent = `${name(kind().queries[state.query])}, block ` +
      `${state.block + 1}, head ${state.head + 1}: ${best.join(", ")}`;
  }, 250);
}
// Arrow keys move within a group, which has one tab stop.
function rove(container, selector, columns, choose) {
  container.addEventListener("keydown", (event) => {
    const items = [...container.querySelectorAll(selector)];
    const at = items.indexOf(event.target.closest(selector));
    if (at < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    const next = {
      ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + columns,
      ArrowUp: at - columns, Home: 0, End: items.length - 1,
    }[event.key];
    if (next === undefined || !items[next]) return;
    event.preventDefault();
    choose(next);
    container.querySelectorAll(selector)[next].focus();
  });
}
const heads = data.model.num_heads;
rove(byId("kinds"), "button", 1, chooseKind);
rove(byId("heads"), "button", heads, (index) => {
  if (byId("compare").checked) return;
  chooseHead(Math.floor(index / heads), index % heads, false);
});
rove(byId("queries"), "li", 1, (index) => {
  state.held = true;
  chooseQuery(index);
  announce();
});
rove(byId("keys"), "tr:not([hidden]) button", 1, chooseKey);
byId("queries").addEventListener("keydown", (event) => {
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    holdQuery(state.query);
  }
});
// Left and right change the column, before `rove` sees the keys.
byId("columns").addEventListener("keydown", (event) => {
  if (event.key !== "ArrowRight" && event.key !== "ArrowLeft") return;
  event.stopPropagation();
  event.preventDefault();
  const items = event.key === "ArrowRight"
    ? byId("keys").querySelectorAll("button") : byId("queries").children;
  items[event.key === "ArrowRight" ? state.key : state.query].focus();
}, true);
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !state.held) return;
  state.held = false;
  renderQuery();
});
byId("compare").addEventListener("change", (event) => {
  if (!event.target.checked) chooseHead(state.block, state.head, false);
});

const systemTheme = matchMedia("(prefers-color-scheme: dark)");
function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : systemTheme.matches;
}
function renderTheme() {
  byId("theme").textContent = isDark() ? "Light colors" : "Dark colors";
  // Pictures are painted in the colors of the theme.
  renderHeads();
  renderDistance();
}
byId("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  renderTheme();
});
systemTheme.addEventListener("change", renderTheme);

new ResizeObserver(() => {
  renderLines();
  renderDistance();
}).observe(byId("columns"));
// Beside a long sentence the other cards stay in view: their end if they are
// higher than the window.
const side = document.querySelector(".side");
const keepSide = () => side.style.setProperty(
  "--side-top", `${Math.min(16, innerHeight - side.offsetHeight - 16)}px`);
new ResizeObserver(keepSide).observe(side);
addEventListener("resize", keepSide);
// The server's page makes its frame as high as this one is.
if (parent !== self) {
  const page = document.documentElement;
  new ResizeObserver(() => {
    const height = Math.ceil(page.getBoundingClientRect().height);
    parent.postMessage({ height }, "*");
  }).observe(page);
}

byId("sentence").textContent = data.sentence || "(empty)";
byId("translation").textContent = data.translation || "(empty)";
byId("table-term").hidden = limit === null;
byId("model").textContent = [
  `${data.model.positions ?? "no"} positions` +
    (limit === null ? "" : `, K = ${limit}`),
  `${data.model.num_encoder_blocks} + ${data.model.num_decoder_blocks} blocks`,
  `${heads} ${heads === 1 ? "head" : "heads"}`,
].join(" \u00b7 ");
chooseKind(0);
renderTheme();
