// What distance adds, and the relation tables of the head.

function renderDistance() {
  const [keyTable, valueTable] = [array("key_table"), array("value_table")];
  const box = byId("distance");
  const none = !keyTable && !valueTable;
  box.hidden = none;
  if (none) {
    byId("distance-note").textContent = hasDistance()
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
  renderTable("key", keyTable, reached);
  renderTable("value", valueTable, reached);
  const adds = renderBars(columns, reached);
  const [left, , right] = box.querySelector(".axis").children;
  left.textContent = limit ? `\u2264 \u2212${limit}` : "";
  right.textContent = limit ? `\u2265 +${limit}` : "";
  const token = quote(kind().queries[state.query]);
  const spot = `Marked: distance ${signed(marked - limit)}`;
  byId("distance-note").textContent = (adds === null ? "" :
    `What the table of keys adds to a logit of ${token}, by distance in ` +
    "tokens; a dash is the mean of all tokens here. ") +
    `Shaded: where its keys lie. ${spot}` +
    (adds === null ? "." : `, which adds ${decimal(adds[marked])}.`);
  byId("plot").setAttribute("aria-label", byId("distance-note").textContent);
}
function renderBars(columns, reached) {
  const logits = array("distance_logits");
  const svg = byId("bars");
  const ticks = byId("plot").querySelectorAll(".tick");
  svg.style.display = logits ? "" : "none";
  ticks.forEach((tick) => { tick.hidden = !logits; });
  if (!logits) return null;
  const rows = kind().queries.map((_, query) => logits.row(state.head, query));
  const means = [...rows[0]].map((_, x) => mean(rows.map((r) => r[x])));
  const mine = [...rows[state.query]];
  // One scale for all tokens, so that they can be compared.
  const all = rows.flatMap((r) => [...r]);
  const low = all.reduce((a, b) => Math.min(a, b), 0);
  const high = all.reduce((a, b) => Math.max(a, b), 0);
  const y = (number) => (100 * (high - number)) / (high - low || 1);
  svg.setAttribute("viewBox", `0 0 ${columns} 100`);
  svg.replaceChildren(
    ...mine.map((number, x) => makeSvg("rect", {
      class: `bar-of ${reached(x) ? "" : "out"}`, x: x + 0.14, width: 0.72,
      y: Math.min(y(number), y(0)), height: Math.abs(y(number) - y(0)),
    })),
    makeSvg("line", { class: "axis-line", x1: 0, x2: columns, y1: y(0),
      y2: y(0) }),
    ...means.map((number, x) => makeSvg("line", { class: "mean", x1: x + 0.2,
      x2: x + 0.8, y1: y(number), y2: y(number) })));
  const height = svg.getBoundingClientRect().height;
  [high, 0, low].forEach((number, index) => {
    ticks[index].style.top = `${(y(number) * height) / 100 - 6}px`;
    ticks[index].textContent = number ? decimal(number) : "0";
    const isNear = Math.abs(y(number) - y(0)) * height < 1200;
    ticks[index].hidden = index !== 1 && isNear;
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
  const most = numbers.reduce((a, b) => Math.max(a, Math.abs(b)), 0) || 1;
  const [less, more] = [color("less"), color("more")];
  paint(canvas, distances, size, (x, y) => {
    const number = numbers[x * size + y] / most;
    return [number < 0 ? less : more,
      Math.abs(number) ** 0.7 * (reached(x) ? 1 : 0.35)];
  });
}
