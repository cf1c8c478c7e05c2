// Makes elements; text is always set as text.

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
function tokenText(token) {
  const text = make("bdi", token.special ? "special" : "");
  const spaces = /^\u2581+(?=.)/.exec(token.text);
  if (spaces && !token.special) {
    text.append(make("span", "mark-space", spaces[0]));
  }
  text.append(token.special ? token.text : name(token));
  return text;
}
// Fills an element with strings, elements, and pairs of class and string.
function fill(element, parts) {
  element.replaceChildren(...parts.map((part) =>
    Array.isArray(part) ? make("span", part[0], part[1]) : part));
}
function symbol(letter, above) {
  const element = make("var", "", letter);
  element.append(make("sup", "", above));
  return element;
}
const color = (variable) => {
  const probe = make("span");
  probe.style.color = `var(--${variable})`;
  document.body.append(probe);
  const rgb = getComputedStyle(probe).color.match(/[\d.]+/g).map(Number);
  probe.remove();
  return rgb;
};
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

// Arrow keys within a group, of which one element is a tab stop.
function roving(container, selector, columns, choose) {
  container.addEventListener("keydown", (event) => {
    const items = [...container.querySelectorAll(selector)];
    const at = items.indexOf(event.target.closest(selector));
    if (at < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    const next = {
      ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + columns(),
      ArrowUp: at - columns(), Home: 0, End: items.length - 1,
    }[event.key];
    if (next === undefined || !items[next]) return;
    event.preventDefault();
    choose(next);
    container.querySelectorAll(selector)[next].focus();
  });
}
