// The numbers of the page, and how they are written.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

// What packed_array.py writes: the last axis changes fastest.
function unpack(packed) {
  if (!packed) return null;
  const bytes = Uint8Array.from(atob(packed.data), (c) => c.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  const numbers = new Float32Array(bytes.length / 2);
  for (let i = 0; i < numbers.length; i++) {
    numbers[i] = view.getInt16(2 * i, true) * packed.scale;
  }
  const [, rows, columns] = packed.shape;
  // A row of (heads, rows, columns).
  const row = (head, i) => {
    const start = (head * rows + i) * columns;
    return numbers.subarray(start, start + columns);
  };
  return { numbers, shape: packed.shape, row };
}
const unpacked = new Map();
function array(name, block = state.block) {
  const key = `${state.kind} ${block} ${name}`;
  if (!unpacked.has(key)) {
    unpacked.set(key, unpack(kind().blocks[block][name]));
  }
  return unpacked.get(key);
}
const row = (name, head = state.head, query = state.query) =>
  array(name)?.row(head, query);
// A minus sign, and none before zero.
const minus = (text) =>
  Number(text) ? text.replace("-", "\u2212") : text.replace("-", "");
const decimal = (x) => minus(x.toFixed(2));
const percent = (x) =>
  minus((100 * x).toFixed(Math.abs(x) < 0.0995 ? 1 : 0)) + "%";
const signed = (n) => (n > 0 ? `+${n}` : minus(String(n)));
const limit = data.model.max_relative_position;
const clip = (d) => Math.max(-limit, Math.min(limit, d));
const mean = (numbers) => numbers.reduce((a, b) => a + b, 0) / numbers.length;
