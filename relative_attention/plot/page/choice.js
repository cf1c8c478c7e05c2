// What is chosen: which attention, block, heads, token.

const HEAD_COLORS = ["#2f7de1", "#e07b1a", "#2a9d6f", "#d6457a", "#8a63d2",
  "#a5852b", "#1a9fb5", "#8b8f99"];
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
// By what the logits have of positions.
const POSITION_NOTES = {
  apart: "",
  mixed: " Positions change the queries and keys of this model, so content " +
    "and position cannot be told apart: all of a logit counts as content.",
  embeddings: " This model knows positions from its embeddings alone, so " +
    "all of a logit counts as content.",
  none: " This model knows no positions: all of a logit is content.",
};

const state = { kind: 0, block: 0, head: 0, query: 0, key: 0, held: false,
  heads: new Set([0]) };
const kind = () => data.kinds[state.kind];
const words = () => KINDS[kind().name];
const isCausal = () => kind().name === "decoder";
const hasDistance = () => kind().name !== "cross";
const numAllowed = () =>
  isCausal() ? state.query + 1 : kind().keys.length;
const name = (token) => token.text.replace(/^\u2581+(?=.)/, "");
const quote = (token) => `\u201c\u2068${name(token)}\u2069\u201d`;
