// The label view: one row (or a grid of rows), one key, the next row.
//
// This is an anywidget front-end module, so the same file runs in the page and in a notebook. It reads "campaign", "rows",
// "progress" and "note" from the model, and sends {type: "tell", key, answers}, {type: "undo", key}, {type: "flag", key, id, text} and
// {type: "more", n}.
// A notebook loads it without a server, so it imports nothing.
// It never waits for a reply: an answered row leaves the screen at once, and comes back only if its answer is refused or undone.

const KEYS = "123456789abcdefghijklmopqrstuvwxz"; // without y and n, which mean yes and no
const GRID_SIZES = [10, 25, 50, 100];
const LOW = 8; // ask for more when fewer rows than this are left in the page
const WIDE = 22; // characters from which a text gets the width of two numbers
const LONG = 60; // and the full width

// ---- small helpers, shared with the other views ---------------------------------------------------------------------------

const present = (children) => children.flat().filter((child) => child !== null && child !== undefined);

/** Make an element. Strings become text, never HTML; "class" and "aria-…" are attributes, "onclick" and the like are listeners. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...present(children));
  return element;
}

/** Replace the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren(...present(children));
}

export const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

/** A share in percent, with no more digits than help: as observal.problem.words writes it. */
export function percent(share) {
  if (share > 0 && share < 0.001) return "less than 0.1%";
  if (share > 0.999 && share < 1) return "more than 99.9%";
  const digits = share < 0.0995 || (share > 0.99 && share < 1) ? 1 : 0;
  return `${(100 * share).toFixed(digits).replace(/\.0$/, "")}%`;
}

/** A key that no other request has; crypto.randomUUID exists only on https and localhost. */
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The keys of each class: 1…9, then letters; also y and n where the classes are yes and no. */
export function classKeys(classes) {
  const lower = classes.map((name) => name.toLowerCase());
  const yesNo = lower.length === 2 && lower.includes("yes") && lower.includes("no");
  return classes.map((name, place) => [KEYS[place], yesNo ? lower[place][0] : null].filter(Boolean));
}

/** Whether a key press is meant for the view: not for a text field, a browser shortcut, or a key that is held down. */
export function isForUs(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return false;
  if (event.target.type === "radio") return event.key !== " " && !event.key.startsWith("Arrow");
  if (event.target.closest?.("input, textarea, select, [contenteditable]")) return false;
  const presses = event.key === " " || (event.key === "Enter" && !event.target.closest?.("[data-row]"));
  return !(presses && event.target.closest?.("button, a, summary"));
}

// ---- a row's fields -------------------------------------------------------------------------------------------------------

export const isPicture = (field) => Boolean((field.kind === "pixels" && field.pixels) || (field.kind === "image" && field.image));

export function shownValue(field) {
  const value = field.value;
  if (field.kind === "missing" || value === null || value === undefined) return "missing";
  if (field.kind === "flag") return value === true ? "yes" : value === false ? "no" : String(value);
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return Math.abs(value) < 10000 ? String(value) : value.toLocaleString("en");
  return String(Number(value.toPrecision(6)));
}

/** Draw numbers from 0, paper, to 1, ink; smooth, because a small picture is then easier to recognise. */
function pixelPicture(field) {
  const rows = field.pixels;
  const canvas = h("canvas", { class: "picture", role: "img", "aria-label": `${field.name}: a picture of ${rows[0].length} by ${rows.length} pixels` });
  canvas.width = rows[0].length + 2; // a margin of one pixel
  canvas.height = rows.length + 2;
  const numbers = rows.flat();
  const low = Math.min(0, ...numbers);
  const range = Math.max(1, ...numbers) - low;
  const context = canvas.getContext("2d");
  context.fillStyle = "#fff";
  context.fillRect(0, 0, canvas.width, canvas.height);
  const image = context.createImageData(rows[0].length, rows.length);
  numbers.forEach((number, place) => {
    const paper = Math.round(255 - 235 * ((number - low) / range));
    image.data.set([paper, paper, Math.min(255, paper + 6), 255], 4 * place);
  });
  context.putImageData(image, 1, 1);
  return canvas;
}

export function picture(field, row) {
  if (field.kind === "pixels") return pixelPicture(field);
  const image = h("img", { class: "picture", src: field.image, alt: `${field.name} of row ${row.id}` });
  image.addEventListener("error", () => image.replaceWith(h("p", { class: "quiet" }, "This picture cannot be shown.")));
  return image;
}

/** A small line with a dot where a number stands among the rows of the pool. */
function standingMark(field) {
  const share = Math.min(1, Math.max(0, field.standing));
  const words = `higher than ${Math.round(100 * share)}% of the rows`;
  const dot = h("span", { class: "dot" });
  dot.style.left = `${100 * share}%`;
  return h("span", { class: "standing", role: "img", "aria-label": words, title: words }, dot);
}

/** A row as people read it: pictures first, then names and values in the table's order. */
export function rowView(row, meanings = {}) {
  const pictures = row.fields.filter(isPicture);
  const others = row.fields.filter((field) => !isPicture(field));
  const list = h("dl", { class: "fields" }, others.map((field) => {
    const text = shownValue(field);
    const kind = field.kind === "missing" || field.value === null ? "missing" : field.kind;
    const mark = typeof field.standing === "number" && kind === "number" ? standingMark(field) : null;
    return h("div", { class: `field ${kind}${text.length > LONG ? " long" : text.length > WIDE ? " wide" : ""}` }, h("dt", { title: meanings[field.name] }, field.name), h("dd", {}, h("span", {}, text), mark));
  }));
  return h("div", { class: `row${pictures.length && others.length ? " both" : ""}` },
    pictures.length ? h("div", { class: "pictures" }, pictures.map((field) => picture(field, row))) : null,
    others.length ? list : null);
}

/** What a screen reader reads out about a row. */
const spoken = (row) => row.fields.slice(0, 8).map((field) => (isPicture(field) ? `${field.name}, a picture` : `${field.name} ${shownValue(field).slice(0, 200)}`)).join("; ");

/** Whether rows are small enough to be compared side by side. */
function fitsGrid(rows) {
  return rows.length > 0 && rows.every((row) => {
    if (row.fields.some(isPicture)) return true;
    return row.fields.length <= 3 && row.fields.every((field) => shownValue(field).length <= 80);
  });
}

export function answerButtons(classes, answer) {
  return classes.map((name, place) =>
    h("button", { type: "button", class: "answer", "data-class": name, onclick: (event) => answer(name, event) },
      h("span", {}, name), h("span", { class: "keys" }, classKeys(classes)[place].map((key) => h("kbd", {}, key)))));
}

// ---- the view -------------------------------------------------------------------------------------------------------------

class LabelView {
  constructor(model, el) {
    this.model = model;
    this.shown = []; // the rows on screen: one, or a grid
    this.returned = []; // rows that were undone here, shown before all others
    this.done = new Set(); // ids of rows that were answered here
    this.history = []; // the same in order, for undo without waiting
    this.undoing = new Map(); // undos without a reply yet: key → the id that was brought back at once, or null
    this.grid = false;
    this.gridSize = 25;
    this.marks = new Map(); // in the grid: id → another class than the default
    this.build(el);
    this.listen();
    this.show();
  }

  build(el) {
    this.title = h(this.model.get("whole_page") ? "h1" : "h2", { class: "question", tabindex: "-1" });
    this.bar = h("progress", { class: "budget", "aria-label": "Labels bought" });
    this.counts = h("p", { class: "counts" });
    this.mode = h("div", { class: "mode", role: "group", "aria-label": "How many rows at once" },
      ["One by one", "Grid"].map((text, grid) => h("button", { type: "button", onclick: () => this.setMode(Boolean(grid)) }, text)));
    this.stage = h("article", { class: "stage", "aria-label": "The row to label" });
    this.answers = h("div", { class: "answers", role: "group", "aria-label": "Answer" });
    this.saved = h("p", { class: "saved" });
    this.live = h("p", { class: "unseen", role: "status", "aria-live": "polite" });
    this.away = h("p", { class: "away", role: "status" });
    this.comment = h("input", { type: "text", maxlength: "2000", placeholder: "What should others know? (optional)", "aria-label": "Comment on this row" });
    this.flagForm = h("form", { class: "flagging", hidden: true, onsubmit: (event) => this.flag(event) }, this.comment, h("button", { type: "submit" }, "Flag this row"));
    this.flagButton = h("button", { type: "button", class: "flag", onclick: () => this.openFlag() }, "Flag or comment ", h("kbd", {}, "!"));
    this.comment.addEventListener("keydown", (event) => event.key === "Escape" && this.closeFlag());
    this.countdown = h("p", { class: "countdown", "aria-hidden": "true" });
    this.root = h("section", { class: "observal-labeller", "aria-label": "Label", tabindex: "-1", "data-lm-suppress-shortcuts": "true" },
      h("header", {}, this.title, this.mode), h("div", { class: "meter" }, this.bar, this.counts),
      this.stage, h("div", { class: "dock" }, this.answers, this.flagForm, h("div", { class: "lines" }, this.saved, this.away, this.flagButton)), this.live);
    el.replaceChildren(this.root);
  }

  listen() {
    const changed = () => this.show();
    const message = (content) => this.receive(content);
    const pressed = (event) => this.pressed(event);
    const target = this.model.get("whole_page") ? document : this.root; // a notebook's own keys stay its own
    const names = ["campaign", "rows", "progress", "pending", "note", "link", "seconds", "waiting"].map((name) => `change:${name}`);
    names.forEach((name) => this.model.on(name, changed));
    this.model.on("msg:custom", message);
    target.addEventListener("keydown", pressed);
    this.stop = () => {
      names.forEach((name) => this.model.off(name, changed));
      this.model.off("msg:custom", message);
      target.removeEventListener("keydown", pressed);
    };
  }

  get classes() {
    return this.model.get("campaign")?.classes ?? [];
  }

  /** Rows still to answer: those undone here first, then those the model has. */
  queue() {
    const back = new Set(this.returned.map((row) => row.id));
    return [...this.returned, ...(this.model.get("rows") ?? []).filter((row) => !this.done.has(row.id) && !back.has(row.id))];
  }

  // -- what people do --

  answerRows(pairs) {
    if (!pairs.length) return;
    const key = newKey();
    for (const [row] of pairs) {
      this.putAway(row.id);
      this.marks.delete(row.id);
      this.history.push(row);
    }
    this.model.send({ type: "tell", key, answers: pairs.map(([row, label]) => ({ id: row.id, label })) });
    const [, label] = pairs[0];
    this.say(pairs.length > 1 ? `${pairs.length} answers saved` : label === null ? "Skipped" : `Saved: ${label}`);
    this.show();
    if (this.queue().length < LOW) this.more();
  }

  answer(label, event) {
    const row = this.shown[0];
    if (event?.detail > 0) this.title.focus({ preventScroll: true }); // after a click, the space bar must skip and not press the button again
    if (row && !this.grid) this.answerRows([[row, label]]);
  }

  undo() {
    const row = this.history.pop();
    const key = newKey();
    this.undoing.set(key, row?.id ?? null);
    if (row) this.bringBack(row);
    this.say(row ? "Undone. Answer this row again" : "Undoing…");
    this.model.send({ type: "undo", key });
    if (row) this.show();
  }

  // -- a flag for others to look at the row, with a comment or without --

  openFlag() {
    if (this.grid || !this.shown.length) return;
    this.flagForm.hidden = false;
    this.comment.focus();
  }

  closeFlag() {
    this.flagForm.hidden = true;
    this.comment.value = "";
    this.title.focus({ preventScroll: true });
  }

  flag(event) {
    event.preventDefault();
    const row = this.shown[0];
    if (row) this.model.send({ type: "flag", key: newKey(), id: row.id, text: this.comment.value });
    this.closeFlag();
    this.say("Flagged. The owner sees it in Review");
    this.speak();
  }

  bringBack(row) {
    this.putAway(row.id);
    this.done.delete(row.id);
    this.returned = [row, ...this.returned];
    this.shown = [row, ...this.shown].slice(0, this.limit);
  }

  putAway(id) {
    this.done.add(id);
    this.returned = this.returned.filter((row) => row.id !== id);
    this.shown = this.shown.filter((row) => row.id !== id);
  }

  get limit() {
    return this.grid ? this.gridSize : 1;
  }

  more() {
    this.model.send({ type: "more", n: Math.max(30, this.limit) });
  }

  submitGrid() {
    this.answerRows(this.shown.map((row) => [row, this.markOf(row)]));
  }

  pressed(event) {
    if (!isForUs(event)) return;
    const place = classKeys(this.classes).findIndex((keys) => keys.includes(event.key.toLowerCase()));
    const tile = event.target.closest?.("[data-row]");
    let used = true;
    if (event.key === "Backspace") this.undo();
    else if (event.key === "!") this.openFlag();
    else if (this.grid && event.key.startsWith("Arrow") && tile) this.moveFocus(tile, event.key);
    else if (this.grid && place >= 0 && tile) this.mark(tile.dataset.row, this.classes[place]);
    else if (this.grid && place >= 0) this.setDefault(this.classes[place]);
    else if (this.grid && event.key === "Enter") this.submitGrid();
    else if (!this.grid && event.key === " ") this.answer(null);
    else if (!this.grid && place >= 0) this.answer(this.classes[place]);
    else used = false;
    if (used) {
      event.preventDefault();
      event.stopPropagation();
    }
  }

  // -- messages from the model --

  receive(content) {
    if (content.type === "undone") this.undone(content);
    else if (content.type === "refused") {
      for (const id of content.ids) this.done.delete(id);
      this.history = this.history.filter((row) => !content.ids.includes(row.id));
      this.say(content.error);
    }
    this.show();
  }

  /** The reply to an undo; usually the row is back on screen already, and may even be answered again. */
  undone({ key, id, row }) {
    const expected = this.undoing.get(key);
    this.undoing.delete(key);
    if (expected && expected === id) return;
    if (expected) this.putAway(expected); // another page of the same person answered last
    this.history = this.history.filter((other) => other.id !== id);
    if (row) this.bringBack(row);
    this.say(id === null ? "There is nothing to undo" : "Undone. Answer this row again");
  }

  say(text) {
    this.saved.textContent = text;
    this.announcement = text;
  }

  /** Have a screen reader read out more, after what it is about to read. */
  announce(text) {
    this.announcement = this.announcement ? `${this.announcement}. ${text}` : text;
  }

  // -- drawing --

  show() {
    const campaign = this.model.get("campaign") ?? { classes: [] };
    const queue = this.queue();
    const known = new Set(queue.map((row) => row.id));
    this.shown = this.shown.filter((row) => known.has(row.id));
    if (!this.shown.length) this.shown = queue.slice(0, this.limit);
    if (this.grid && !fitsGrid(queue)) this.grid = queue.length === 0;
    this.title.textContent = campaign.title || `What is ${campaign.label}?`;
    this.showProgress();
    this.showMode(fitsGrid(queue));
    this.showStage(queue.length);
    const waiting = this.model.get("waiting") ?? "";
    if (this.away.textContent !== waiting) this.away.textContent = waiting;
    for (const row of queue.slice(0, 4)) this.preload(row);
  }

  showProgress() {
    const progress = this.model.get("progress") ?? {};
    const pending = this.model.get("pending") ?? 0;
    const labels = (progress.labels ?? 0) + pending;
    const budget = progress.label_budget;
    this.bar.hidden = !budget;
    if (budget) {
      this.bar.max = budget;
      this.bar.value = Math.min(labels, budget);
    }
    const round = progress.round ? `Round ${progress.round}` : null;
    this.counts.textContent = [budget ? `${labels} of ${plural(budget, "label")}` : plural(labels, "label"), round].filter(Boolean).join(" · ");
  }

  showMode(possible) {
    this.mode.hidden = !possible && !this.grid;
    [...this.mode.children].forEach((button, place) => button.setAttribute("aria-pressed", String(this.grid === Boolean(place))));
  }

  setMode(grid) {
    this.grid = grid;
    this.shown = [];
    this.show();
    if (grid) this.more();
  }

  showStage(left) {
    const ids = JSON.stringify([this.grid, this.gridSize, this.classes, this.shown.map((row) => row.id), left ? "" : [this.model.get("note"), this.model.get("link")]]);
    if (!left) this.countdown.textContent = this.secondsLeft(); // apart from the note: a screen reader must not read out every second
    if (ids === this.drawn) return this.speak();
    this.drawn = ids;
    this.flagButton.hidden = this.grid || !this.shown.length;
    this.flagForm.hidden = true; // a comment is about the row that was on screen
    this.comment.value = "";
    if (!this.shown.length) this.drawEmpty();
    else if (this.grid) this.drawGrid();
    else this.drawRow(this.shown[0]);
    this.speak();
  }

  drawEmpty() {
    const note = this.model.get("note") || "Looking for rows…";
    const link = this.model.get("link"); // where to go on: {href, view, text}
    fill(this.stage, h("p", { class: "nothing" }, note), link ? h("p", { class: "onward" }, h("a", { href: link.href, "data-view": link.view }, link.text)) : null, this.countdown);
    this.dock("empty", () => []);
    this.announce(note);
  }

  secondsLeft() {
    const seconds = this.model.get("seconds");
    if (typeof seconds !== "number") return "";
    return seconds > 0 ? `about ${plural(seconds, "second")} left` : "a moment longer than last time";
  }

  drawRow(row) {
    fill(this.stage, rowView(row, this.model.get("campaign")?.column_help), this.why(row));
    this.dock(`row ${JSON.stringify(this.classes)}`, () => [
      answerButtons(this.classes, (label, event) => this.answer(label, event)),
      h("button", { type: "button", class: "skip", onclick: (event) => this.answer(null, event) }, h("span", {}, "Skip"), h("span", { class: "keys" }, h("kbd", {}, "space"))),
    ]);
    this.announce(`Row ${row.id}: ${spoken(row)}`);
  }

  why(row) {
    const chance = typeof row.query_probability === "number" ? ` Its chance of being asked was ${percent(row.query_probability)}.` : "";
    const reason = (row.reason ?? "").replace(/^./, (letter) => letter.toUpperCase()).replace(/\.?$/, ".");
    const model = reason.includes("model of round") ? [] : [h("span", { class: "id" }, `Model of round ${row.model_round}`)];
    return h("p", { class: "why" }, h("strong", {}, "Why this row? "), reason + chance, h("span", { class: "id" }, `Row ${row.id}`), ...model);
  }

  /** Draw the buttons, unless the same ones are there, so that the focus stays on a button from row to row. */
  dock(state, buttons) {
    if (this.answers.dataset.state === state) return;
    this.answers.dataset.state = state;
    fill(this.answers, ...buttons().flat(), this.undoButton());
  }

  undoButton() {
    return h("button", { type: "button", class: "undo", onclick: () => this.undo() }, h("span", {}, "Undo"), h("span", { class: "keys" }, h("kbd", {}, "backspace")));
  }

  // -- the grid: all rows get one class, except the odd ones --

  get defaultClass() {
    return this.chosenDefault ?? this.classes[0];
  }

  markOf(row) {
    return this.marks.has(row.id) ? this.marks.get(row.id) : this.defaultClass;
  }

  setDefault(name) {
    this.chosenDefault = name;
    this.marks.clear();
    this.refreshTiles();
  }

  mark(id, name) {
    if (name === this.defaultClass) this.marks.delete(id);
    else this.marks.set(id, name);
    this.refreshTiles();
  }

  /** A click goes through the classes; with two, it switches. */
  nextMark(row) {
    const at = this.classes.indexOf(this.markOf(row));
    this.mark(row.id, this.classes[(at + 1) % this.classes.length]);
  }

  drawGrid() {
    const name = `default-${newKey()}`;
    const keys = classKeys(this.classes);
    const choice = h("fieldset", { class: "default" }, h("legend", {}, "All of these are"),
      this.classes.map((text, place) => {
        const radio = h("input", { type: "radio", name, value: text, onchange: () => this.setDefault(text) });
        return h("label", {}, radio, h("span", {}, text), h("kbd", {}, keys[place][0]));
      }));
    const size = h("select", { onchange: (event) => this.resize(Number(event.target.value)) },
      GRID_SIZES.map((count) => h("option", { value: count, selected: count === this.gridSize }, String(count))));
    const tiles = h("div", { class: "tiles" }, this.shown.map((row) => this.tile(row)));
    const help = [h("p", {}, "except the ones you select."), h("p", { class: "quiet keyboard" }, "Arrow keys move, the key of a class marks, Enter submits.")];
    fill(this.stage, h("div", { class: "grid-head" }, choice, h("label", { class: "size" }, "at once ", size)), help, tiles);
    this.dock("grid", () => {
      this.submit = h("button", { type: "button", class: "answer submit", onclick: () => this.submitGrid() });
      return [this.submit];
    });
    this.refreshTiles();
    this.announce(`${plural(this.shown.length, "row")} to compare`);
  }

  tile(row) {
    const first = row.fields.find(isPicture);
    const inside = first ? picture(first, row) : h("span", { class: "tile-text" }, row.fields.map(shownValue).join(" · "));
    return h("button", { type: "button", class: "tile", "data-row": row.id, "aria-pressed": "false", onclick: () => this.nextMark(row) }, inside, h("span", { class: "tile-class" }));
  }

  refreshTiles() {
    for (const tile of this.stage.querySelectorAll("[data-row]")) {
      const row = this.shown.find((other) => other.id === tile.dataset.row);
      tile.setAttribute("aria-pressed", String(this.marks.has(row.id)));
      tile.querySelector(".tile-class").textContent = this.markOf(row);
    }
    for (const radio of this.stage.querySelectorAll("input[type=radio]")) radio.checked = radio.value === this.defaultClass;
    const odd = this.shown.filter((row) => this.marks.has(row.id)).length;
    fill(this.submit, h("span", {}, `Submit ${plural(this.shown.length, "answer")}${odd ? `, ${odd} odd` : ""}`), h("span", { class: "keys" }, h("kbd", {}, "Enter")));
  }

  resize(count) {
    this.gridSize = count;
    this.shown = [];
    this.show();
    this.more();
  }

  moveFocus(tile, key) {
    const tiles = [...this.stage.querySelectorAll("[data-row]")];
    const across = tiles.filter((other) => other.offsetTop === tiles[0].offsetTop).length;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[key] ?? 0;
    tiles[Math.min(tiles.length - 1, Math.max(0, tiles.indexOf(tile) + step))].focus();
  }

  // -- the rest --

  speak() {
    if (!this.announcement) return;
    this.live.textContent = this.announcement;
    this.announcement = "";
  }

  /** Fetch the pictures of the next rows before they are shown. */
  preload(row) {
    this.preloaded ??= new Set();
    for (const field of row.fields) {
      if (field.kind !== "image" || !field.image || this.preloaded.has(field.image)) continue;
      this.preloaded.add(field.image);
      new Image().src = field.image;
    }
  }
}

export default {
  render({ model, el }) {
    const view = new LabelView(model, el);
    return () => view.stop();
  },
};
