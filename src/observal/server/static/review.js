// The review view, for the owner: rows on which people disagree, decided with one key; every answer and flag, to find and correct; what
// happened when. With ?row=ID in the address it shows that row alone, so that people can send each other a link to it.

import { answerButtons, classKeys, fill, h, isForUs, isPicture, newKey, picture, plural, rowView, shownValue } from "./labeller.js";
import { api, Refused } from "./outbox.js";
import { table } from "./progress.js";

const when = (time) => (time ? new Date(time).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" }) : "");

/** A few words or a small picture by which a row is recognised in a table. */
function glimpse(row) {
  const first = row.fields.find(isPicture);
  if (first) {
    const small = picture(first, row);
    small.classList.add("small");
    return small;
  }
  return row.fields.slice(0, 3).map((field) => `${field.name} ${shownValue(field).slice(0, 60)}`).join(" · ");
}

const ONLY = { all: "All rows", disagreement: "People disagree", flagged: "Flagged", skipped: "Skipped" };
const flagWords = (flag) => `⚑ ${flag.annotator}${flag.text ? `: ${flag.text}` : ""}`;

/** The label that most people gave; null if all of them skipped or two labels are equally common. */
function majority(answers) {
  const counts = new Map();
  for (const { label } of answers) if (label !== null) counts.set(label, (counts.get(label) ?? 0) + 1);
  const ranked = [...counts].sort((a, b) => b[1] - a[1]);
  return ranked.length && ranked[0][1] !== ranked[1]?.[1] ? ranked[0][0] : null;
}

class Review {
  constructor(el, me, onSignedOut) {
    Object.assign(this, { me, onSignedOut, rows: [], all: [], entries: [], at: 0, only: "all", find: "", total: 0 });
    this.single = new URLSearchParams(location.search).get("row");
    this.message = h("p", { class: "quiet", role: "status" });
    this.disputed = h("section", { class: "observal-labeller", "aria-label": "Rows on which people disagree" });
    this.rest = h("div", {});
    this.found = h("div", {}); // apart from the filter, which keeps its focus while people type
    fill(el, h("h1", {}, this.single === null ? "Review" : `Row ${this.single}`), this.message, this.disputed, this.rest);
    this.onKey = (event) => this.pressed(event);
    document.addEventListener("keydown", this.onKey);
    this.load();
  }

  async load() {
    try {
      if (this.single !== null) {
        this.rows = (await api(`review?row=${encodeURIComponent(this.single)}`)).rows;
        return this.drawDisputed();
      }
      const [open, all, history] = await Promise.all([api("review"), api(this.query(0)), api("history")]);
      Object.assign(this, { rows: open.rows, all: all.rows, total: all.total, entries: history.entries });
      this.at = Math.max(0, this.rows.findIndex((row) => row.open));
      this.draw();
    } catch (error) {
      this.failed(error);
    }
  }

  query(first) {
    return `review?all=1&only=${this.only}&find=${encodeURIComponent(this.find)}&first=${first}`;
  }

  /** Show the rows that the filter lets through, or more of them. */
  async search(more = false) {
    const asked = (this.asked = {}); // a reply to an earlier question is dropped
    try {
      const { rows, total } = await api(this.query(more ? this.all.length : 0));
      if (asked !== this.asked) return;
      Object.assign(this, { all: more ? [...this.all, ...rows] : rows, total });
      this.drawFound();
    } catch (error) {
      this.failed(error);
    }
  }

  failed(error) {
    if (error instanceof Refused && error.status === 401) this.onSignedOut();
    else this.message.textContent = error instanceof Refused ? error.message : "The server cannot be reached, so this was not stored. Please try again.";
  }

  get row() {
    return this.rows[this.at];
  }

  async decide(row, label) {
    if (!row || this.busy) return;
    this.busy = true;
    try {
      await api("review", { key: newKey(), id: row.id, label });
      this.message.textContent = `Row ${row.id} is ${label}.`;
      await this.load();
    } catch (error) {
      this.failed(error);
    } finally {
      this.busy = false;
    }
  }

  move(step) {
    this.at = Math.min(this.rows.length - 1, Math.max(0, this.at + step));
    this.drawDisputed();
  }

  pressed(event) {
    if (!isForUs(event) || !this.row) return;
    const place = classKeys(this.me.campaign.classes).findIndex((keys) => keys.includes(event.key.toLowerCase()));
    if (place >= 0) this.decide(this.row, this.me.campaign.classes[place]);
    else if (event.key === "ArrowRight") this.move(1);
    else if (event.key === "ArrowLeft") this.move(-1);
    else return;
    event.preventDefault();
  }

  draw() {
    this.drawDisputed();
    this.drawRest();
  }

  drawDisputed() {
    const row = this.row;
    const open = this.rows.filter((other) => other.open).length;
    if (!row) return fill(this.disputed, h("p", { class: "card quiet" }, this.single === null ? "People do not disagree on any row." : "Nobody was asked about this row."));
    const turn = (text, step, off) => {
      const button = h("button", { type: "button", class: "plain", onclick: () => this.move(step) }, text);
      button.disabled = off;
      return button;
    };
    fill(this.disputed,
      this.single === null ? h("div", { class: "pager" }, turn("← Back", -1, this.at === 0),
        h("span", {}, `Row ${this.at + 1} of ${this.rows.length}, ${open ? `${open} to decide` : "all decided"}`), turn("Next →", 1, this.at === this.rows.length - 1)) : h("p", {}, h("a", { href: "/review", "data-view": "review" }, "All rows")),
      h("article", { class: "stage", "aria-label": `Row ${row.id}` }, rowView(row, this.me.campaign.column_help),
        h("ul", { class: "opinions", "aria-label": "Answers" }, row.answers.map((answer) =>
          h("li", {}, h("span", { class: "label" }, answer.label ?? "skipped"), h("span", { class: "quiet" }, `${answer.annotator}, ${when(answer.time)}`)))),
        row.flags.length ? h("ul", { class: "raised", "aria-label": "Flags" }, row.flags.map((flag) => h("li", {}, flagWords(flag)))) : null,
        row.decided === null ? null : h("p", { class: "decided" }, `It now counts as ${row.decided}.`)),
      h("div", { class: "dock" }, h("div", { class: "answers", role: "group", "aria-label": "Decide" }, answerButtons(this.me.campaign.classes, (label) => this.decide(row, label)))));
  }

  /** Every answered or flagged row, and the journal in words. */
  drawRest() {
    const entries = [...this.entries].reverse().map((entry) => [when(entry.time), entry.actor, entry.text]);
    const only = h("select", { class: "change", "aria-label": "Which rows", onchange: (event) => { this.only = event.target.value; this.search(); } },
      Object.entries(ONLY).map(([value, text]) => h("option", { value, selected: value === this.only }, text)));
    const find = h("input", { type: "search", "aria-label": "Find rows", placeholder: "Search ids, names, answers, comments and values", value: this.find, oninput: (event) => { this.find = event.target.value; this.search(); } });
    fill(this.rest,
      h("h2", {}, "Answers and flags, newest first"), h("div", { class: "filter" }, only, find), this.found,
      h("h2", {}, "What happened"), table(["When", "Who", "What"], entries));
    this.drawFound();
  }

  drawFound() {
    const rows = this.all.map((row) => [
      h("a", { href: `/review?row=${encodeURIComponent(row.id)}`, "data-view": "review" }, row.id), glimpse(row),
      h("div", {}, row.answers.map((answer) => `${answer.annotator}: ${answer.label ?? "skipped"}, ${when(answer.time)}`).join("; "), row.flags.map((flag) => h("div", { class: "flagged" }, flagWords(flag)))),
      this.chooser(row)]);
    const filtered = this.only !== "all" || this.find.trim();
    fill(this.found,
      h("p", { class: "quiet", role: "status" }, rows.length ? plural(this.total, "row") : filtered ? "No such row." : "There are no answers yet."),
      rows.length ? table(["Row", "Content", "Answers", "Counts as"], rows) : null,
      rows.length < this.total ? h("button", { type: "button", class: "plain", onclick: () => this.search(true) }, "Show more") : null);
  }

  chooser(row) {
    const now = row.decided ?? majority(row.answers);
    const select = h("select", { class: "change", "aria-label": `What row ${row.id} counts as`, onchange: (event) => this.decide(row, event.target.value) },
      now === null ? h("option", { value: "" }, !row.answers.length ? "not answered" : row.answers.every((answer) => answer.label === null) ? "skipped" : "undecided") : null,
      this.me.campaign.classes.map((name) => h("option", { value: name }, name)));
    select.value = now ?? "";
    return select;
  }
}

export function render({ el, me, onSignedOut }) {
  const view = new Review(el, me, onSignedOut);
  return () => document.removeEventListener("keydown", view.onKey);
}
