// The lines between the columns.

// How much of what lifts a key above the average one is position.
function positionPart(query, key) {
  const terms = ["content_logits", "position_logits"].map((term) => {
    const numbers = row(term, state.head, query);
    if (!numbers) return 0;
    const seen = numbers.subarray(0, isCausal() ? query + 1 : numbers.length);
    return Math.max(0, seen[key] - mean(seen));
  });
  return terms[1] / (terms[0] + terms[1] || 1);
}
function renderLines() {
  const box = byId("lines").getBoundingClientRect();
  const middle = (element) => {
    const { top, height } = element.getBoundingClientRect();
    return top + height / 2 - box.top;
  };
  const from = [...byId("queries").children].map(middle);
  const to = [...byId("keys").children].map(middle);
  const paths = [];
  const line = (query, key, shift, weight, stroke, faint) => {
    const [a, b] = [from[query] + shift, to[key] + shift];
    const bend = box.width / 2;
    const path = makeSvg("path", {
      d: `M0 ${a} C${bend} ${a} ${bend} ${b} ${box.width} ${b}`,
      "stroke-width": faint ? 1 : 1 + 9 * weight,
      opacity: faint ? 0.16 * weight : 0.25 + 0.7 * weight,
    });
    path.style.stroke = stroke;
    if (!faint) path.dataset.key = key;
    paths.push(path);
  };
  kind().queries.forEach((_, query) => {
    if (query === state.query) return;
    row("scores", state.head, query).forEach((weight, key) => {
      if (weight > 0.1 && key < numAllowed()) {
        line(query, key, 0, weight, "var(--ink)", true);
      }
    });
  });
  const heads = [...state.heads];
  heads.forEach((head, index) => {
    const shift = 3 * (index - (heads.length - 1) / 2);
    row("scores", head).forEach((weight, key) => {
      if (weight < 0.005 || key >= numAllowed()) return;
      const part = Math.round(100 * positionPart(state.query, key));
      line(state.query, key, shift, weight, heads.length > 1 ? headColor(head)
        : `color-mix(in oklab, var(--position) ${part}%, var(--content))`);
    });
  });
  byId("lines").replaceChildren(...paths);
}
