// Which attention, block and head is shown.

function renderKinds() {
  byId("kinds").replaceChildren(...data.kinds.map((one, index) => {
    const button = make("button", "", KINDS[one.name].label);
    const chosen = index === state.kind;
    button.type = "button";
    button.setAttribute("role", "radio");
    button.setAttribute("aria-checked", chosen);
    button.tabIndex = chosen ? 0 : -1;
    button.addEventListener("click", () => chooseKind(index, true));
    return button;
  }));
}
function chooseKind(index, focus) {
  Object.assign(state, { kind: index, query: 0, key: 0, held: false });
  state.block = Math.min(state.block, kind().blocks.length - 1);
  // Of the first tokens there is often little to see.
  state.query = Math.min(2, kind().queries.length - 1);
  renderKinds();
  if (focus) byId("kinds").children[index].focus();
  renderHeads();
  renderTokens();
  chooseQuery(state.query);
}
function chooseHead(block, head, add) {
  if (add && block === state.block && state.heads.size) {
    if (state.heads.has(head) && state.heads.size > 1) {
      state.heads.delete(head);
      if (state.head === head) [state.head] = state.heads;
    } else {
      state.heads.add(head);
      state.head = head;
    }
  } else {
    Object.assign(state, { block, head, heads: new Set([head]) });
  }
  markHeads();
  renderQuery();
  announce();
}
const headColor = (head) => HEAD_COLORS[head % HEAD_COLORS.length];
function renderHeads() {
  const box = byId("heads");
  const heads = data.model.num_heads;
  box.style.gridTemplateColumns = `auto repeat(${heads}, minmax(26px, 74px))`;
  const cells = [make("span")];
  for (let head = 0; head < heads; head++) {
    cells.push(make("span", "number", head + 1));
  }
  kind().blocks.forEach((block, index) => {
    cells.push(make("span", "number", index + 1));
    for (let head = 0; head < heads; head++) {
      cells.push(headButton(block, index, head));
    }
  });
  box.replaceChildren(...cells);
  markHeads();
}
function headButton(block, index, head) {
  const button = make("button");
  const share = block.position_shares[head];
  const canvas = make("canvas");
  const bar = make("span", "share");
  const [content, position] = ["content", "position"].map((c) => make("span", c));
  button.type = "button";
  content.style.width = `${100 - 100 * share}%`;
  position.style.width = `${100 * share}%`;
  bar.append(content, position);
  bar.hidden = !array("position_logits", index);
  button.append(canvas, bar);
  button.dataset.block = index;
  button.dataset.head = head;
  const label = `block ${index + 1}, head ${head + 1}` +
    (bar.hidden ? "" : `, ${percent(share)} by position`);
  button.setAttribute("aria-label", label);
  button.title = label;
  button.addEventListener("click", () =>
    chooseHead(index, head, byId("compare").checked));
  paintHead(canvas, index, head);
  return button;
}
function paintHead(canvas, block, head) {
  const scores = array("scores", block);
  const ink = color("ink");
  const [, rows, columns] = scores.shape;
  paint(canvas, columns, rows, (x, y) =>
    [ink, Math.sqrt(scores.row(head, y)[x])]);
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
