// The numbers of a pair and of an output.

function markKey() {
  [...byId("keys").children].forEach((line, index) => {
    line.classList.toggle("chosen", index === state.key);
    line.querySelector("button").tabIndex = index === state.key ? 0 : -1;
  });
  renderEdge();
  renderDistance();
  renderLines();
}
function renderEdge() {
  const at = (name) => row(name)?.[state.key];
  const [content, position] = [at("content_logits"), at("position_logits")];
  const [value, relation] = [at("value_shares"), at("relation_shares")];
  const { queries, keys } = kind();
  byId("edge-title").textContent =
    `${quote(queries[state.query])} looks at ${quote(keys[state.key])}`;
  const lines = [["logit", position === undefined
    ? [["is-content", decimal(content)], " content"]
    : [`${decimal(content + position)} = `, ["is-content", decimal(content)],
      " content + ", ["is-position", decimal(position)], " position"]]];
  lines.push(["weight", [percent(at("scores"))]]);
  lines.push(["of the output", relation === undefined
    ? [["is-content", percent(value)], " by its value"]
    : [["is-content", percent(value)], " by its value, ",
      ["is-position", percent(relation)], " by distance"]]);
  if (hasDistance()) {
    const distance = state.key - state.query;
    const clipped = limit !== null && clip(distance) !== distance;
    lines.unshift(["distance", [signed(distance) + (clipped
      ? `, clipped to ${signed(clip(distance))}` : "")]]);
  }
  byId("edge").replaceChildren(...lines.flatMap(([term, parts]) => {
    const text = make("dd");
    fill(text, parts);
    return [make("dt", "", term), text];
  }));
}
function renderOutput([values, relations]) {
  const sum = (numbers) => numbers ? numbers.reduce((a, b) => a + b, 0) : 0;
  const [content, position] = [sum(values), sum(relations)];
  const [left, right] = document.querySelectorAll(".stacked span");
  const whole = Math.max(0, content) + Math.max(0, position) || 1;
  left.style.width = `${(100 * Math.max(0, content)) / whole}%`;
  right.style.width = `${(100 * Math.max(0, position)) / whole}%`;
  const text = [["is-content", percent(content)], " came through the values"];
  fill(byId("output"), relations
    ? [...text, ", ", ["is-position", percent(position)],
      " through ", symbol("a", "V"), ", what distance adds to them."]
    : [...text, ": nothing is added to them by distance."]);
}
