// Help beside the rows: the owner's instructions, and what columns mean. The key ? opens and closes it.
//
// Instructions are Markdown by people who may have copied it from anywhere, so it becomes elements one by one, never HTML: headings, lists,
// quotes, code, bold, italics, and links to web addresses. Anything else stays text.

import { fill, h, isForUs } from "./labeller.js";

const INLINE = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*|\[([^\]]+)\]\((https?:\/\/[^\s)]+)\)/g;

/** A line of Markdown as text and elements. */
function inline(text) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    parts.push(text.slice(end, match.index));
    const [, code, bold, italic, words, address] = match;
    if (code) parts.push(h("code", {}, code));
    else if (bold) parts.push(h("strong", {}, bold));
    else if (italic) parts.push(h("em", {}, italic));
    else parts.push(h("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, words));
    end = match.index + match[0].length;
  }
  return [...parts, text.slice(end)];
}

const KINDS = [
  ["heading", /^(#{1,6})\s+(.*)$/],
  ["bullet", /^\s*[-*+]\s+(.*)$/],
  ["number", /^\s*\d+[.)]\s+(.*)$/],
  ["quote", /^>\s?(.*)$/],
];

function kindOf(line) {
  for (const [kind, pattern] of KINDS) {
    const match = pattern.exec(line);
    if (match) return { kind, level: kind === "heading" ? match[1].length : 0, text: match.at(-1) };
  }
  return { kind: line.trim() ? "text" : "gap", level: 0, text: line.trim() };
}

/** Lines of one kind that follow each other, as one block; a fenced block keeps its lines as they are. */
function blocks(markdown) {
  const found = [];
  let fenced = null;
  for (const line of markdown.replace(/\r\n?/g, "\n").split("\n")) {
    if (/^\s*```/.test(line)) {
      if (fenced) found.push(fenced);
      fenced = fenced ? null : { kind: "code", lines: [] };
    } else if (fenced) {
      fenced.lines.push(line);
    } else {
      const { kind, level, text } = kindOf(line);
      const last = found.at(-1);
      if (last?.kind === kind && kind !== "heading") last.lines.push(text);
      else found.push({ kind, level, lines: [text] });
    }
  }
  if (fenced) found.push(fenced);
  return found.filter((block) => block.kind !== "gap");
}

/** Markdown as elements; headings begin at h3, below those of the page. */
export function renderMarkdown(markdown) {
  return blocks(markdown).map(({ kind, level, lines }) => {
    const items = () => lines.map((line) => h("li", {}, inline(line)));
    if (kind === "heading") return h(level < 3 ? "h3" : "h4", {}, inline(lines[0]));
    if (kind === "bullet") return h("ul", {}, items());
    if (kind === "number") return h("ol", {}, items());
    if (kind === "quote") return h("blockquote", {}, inline(lines.join(" ")));
    if (kind === "code") return h("pre", { tabindex: "0" }, lines.join("\n"));
    return h("p", {}, inline(lines.join(" ")));
  });
}

/** Offer help in a card before `el`, if there is any; returns how to stop. */
export function offerHelp(el, campaign) {
  const columns = Object.entries(campaign.column_help ?? {});
  if (!campaign.instructions && !columns.length) return () => {};
  const panel = h("section", { class: "help card", id: "help", "aria-label": "Help", hidden: true });
  const button = h("button", { type: "button", class: "plain help-button", "aria-expanded": "false", "aria-controls": "help" }, "How to label ", h("kbd", {}, "?"));
  fill(panel,
    campaign.instructions ? [h("h2", {}, "How to label"), renderMarkdown(campaign.instructions)].flat() : null,
    columns.length ? [h("h2", {}, "What the columns mean"), h("dl", { class: "meanings" }, columns.map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]).flat())] : null);
  const toggle = () => {
    panel.hidden = !panel.hidden;
    button.setAttribute("aria-expanded", String(!panel.hidden));
  };
  const pressed = (event) => {
    if (event.key !== "?" || !isForUs(event)) return;
    event.preventDefault();
    toggle();
  };
  button.addEventListener("click", toggle);
  document.addEventListener("keydown", pressed);
  el.before(button, panel);
  return () => {
    document.removeEventListener("keydown", pressed);
    button.remove();
    panel.remove();
  };
}
