// What is said to those who listen, and how all begins.

let waiting;
function announce() {
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    const scores = [...row("scores")];
    const best = scores.map((weight, key) => [weight, key])
      .sort((a, b) => b[0] - a[0]).slice(0, 3)
      .map(([weight, key]) => `${name(kind().keys[key])} ${percent(weight)}`);
    byId("live").textContent = `${name(kind().queries[state.query])}, block ` +
      `${state.block + 1}, head ${state.head + 1}: ${best.join(", ")}`;
  }, 250);
}

const isDark = () => {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
};
function renderTheme() {
  byId("theme").textContent = isDark() ? "Light colours" : "Dark colours";
  renderHeads();
  renderDistance();
}
byId("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  renderTheme();
});
matchMedia("(prefers-color-scheme: dark)")
  .addEventListener("change", renderTheme);
byId("compare").addEventListener("change", (event) => {
  if (!event.target.checked) chooseHead(state.block, state.head, false);
});
roving(byId("kinds"), "button", () => 1, (index) => chooseKind(index, true));
roving(byId("heads"), "button", () => data.model.num_heads, (index) => {
  const heads = data.model.num_heads;
  if (byId("compare").checked) return;
  chooseHead(Math.floor(index / heads), index % heads, false);
});
roving(byId("queries"), "li", () => 1, (index) => {
  state.held = true;
  chooseQuery(index);
  announce();
});
roving(byId("keys"), "tr:not([hidden]) button", () => 1, chooseKey);
byId("queries").addEventListener("keydown", (event) => {
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    hold(state.query);
  }
});
// Before the arrow keys of either column: they are for up and down alone.
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
new ResizeObserver(() => {
  renderLines();
  renderDistance();
}).observe(byId("columns"));
// Beside a long sentence the other column stays: its end, where it is too high.
const side = document.querySelector(".side");
const keepSide = () => side.style.setProperty(
  "--side-top", `${Math.min(16, innerHeight - side.offsetHeight - 16)}px`);
new ResizeObserver(keepSide).observe(side);
addEventListener("resize", keepSide);

const sizes = data.model;
byId("sentence").textContent = data.sentence || "(empty)";
byId("translation").textContent = data.translation || "(empty)";
byId("table-term").hidden = limit === null;
byId("model").textContent = [
  `${sizes.positions ?? "no"} positions` + (limit === null ? ""
    : `, K = ${limit}`),
  `${sizes.num_encoder_blocks} + ${sizes.num_decoder_blocks} blocks`,
  `${sizes.num_heads} ${sizes.num_heads === 1 ? "head" : "heads"}`,
].join(" \u00b7 ");
chooseKind(0, false);
renderTheme();
