// The model behind the label view in the page: rows come from the server, and answers wait in an outbox until the server has them.
//
// The outbox is kept in localStorage, so it survives a reload and a closed browser. Answers and undos are sent one at a time and in
// order. Each has a key, and the server stores a key only once, so sending again after a lost reply is harmless.

import { plural } from "./labeller.js";

const RENEW = 60_000; // a page that is open keeps its rows
const SOON = 700; // while the next rows are being chosen
const LATER = 4000; // while others hold all open rows

/** A refusal by the server, with its status and its sentence. */
export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

const watchers = new Set();

/** Have a function called with the progress that replies bring; returns how to stop. */
export function watchProgress(watcher) {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

/** Call the API. Throws Refused if the server refuses, and TypeError if it cannot be reached. */
export const api = (path, body) => send(`/api/v1/${path}`, body);

export async function send(address, body) {
  const options = { credentials: "same-origin", cache: "no-store", headers: {} };
  if (body !== undefined) {
    options.method = "POST";
    options.headers = { "Content-Type": "application/json", "X-Observal": "1" };
    options.body = JSON.stringify(body);
  }
  const response = await fetch(address, options);
  const reply = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, reply.error ?? `The server answered ${response.status}.`);
  if (reply.progress) for (const watcher of watchers) watcher(reply.progress);
  return reply;
}

/** Save a file that the server makes, under the name that it gives. Throws as `api` does. */
export async function download(path) {
  const response = await fetch(`/api/v1/${path}`, { credentials: "same-origin", cache: "no-store" });
  if (!response.ok) throw new Refused(response.status, (await response.json().catch(() => ({}))).error ?? `The server answered ${response.status}.`);
  const name = /filename\*=utf-8''([^;]+)|filename="([^"]+)"/i.exec(response.headers.get("content-disposition") ?? "");
  const address = URL.createObjectURL(await response.blob());
  const link = document.createElement("a");
  link.href = address;
  link.download = name ? decodeURIComponent(name[1] ?? name[2]) : path;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000); // the browser may still be reading it
}

/** A list in localStorage; in memory if the browser forbids that. */
class Stored {
  constructor(name) {
    this.name = name;
    this.memory = [];
  }

  read() {
    try {
      return JSON.parse(localStorage.getItem(this.name)) ?? [];
    } catch {
      return this.memory;
    }
  }

  write(items) {
    this.memory = items;
    try {
      if (items.length) localStorage.setItem(this.name, JSON.stringify(items));
      else localStorage.removeItem(this.name);
    } catch {
      // Private windows may refuse; the answers then live as long as the page.
    }
  }
}

export class ServerModel {
  constructor(me) {
    this.values = { campaign: me.campaign, rows: [], progress: {}, note: "Looking for rows…", link: null, seconds: null, waiting: "", pending: 0, whole_page: true };
    this.listeners = new Map();
    this.isOwner = me.role === "owner";
    this.outbox = new Stored(`observal outbox ${JSON.stringify([me.name, me.campaign.id])}`);
    this.wanted = 30;
    this.retry = 500;
    this.accepts = 0; // requests from the outbox that the server has answered
    this.stopped = false;
    this.onSignedOut = () => {};
  }

  // -- anywidget's interface --

  get(name) {
    return this.values[name];
  }

  set(name, value) {
    this.values[name] = value;
    this.emit(`change:${name}`, value);
  }

  on(name, listener) {
    this.listeners.set(name, [...(this.listeners.get(name) ?? []), listener]);
  }

  off(name, listener) {
    this.listeners.set(name, (this.listeners.get(name) ?? []).filter((other) => other !== listener));
  }

  emit(name, content) {
    for (const listener of this.listeners.get(name) ?? []) listener(content);
  }

  send(message) {
    if (message.type === "more") {
      this.wanted = Math.max(this.wanted, message.n ?? 0);
      if (!this.all) this.ask();
      return;
    }
    this.outbox.write([...this.outbox.read(), message]);
    this.count();
    this.deliver();
  }

  // -- answers to the server --

  start() {
    this.wake = () => {
      if (document.visibilityState === "visible") this.again();
    };
    addEventListener("online", this.wake);
    document.addEventListener("visibilitychange", this.wake);
    this.count();
    this.deliver().then(() => this.ask());
    this.renewing = setInterval(() => document.visibilityState === "visible" && this.ask(), RENEW);
  }

  stop() {
    this.stopped = true;
    removeEventListener("online", this.wake);
    document.removeEventListener("visibilitychange", this.wake);
    clearInterval(this.renewing);
    clearInterval(this.counting);
    clearTimeout(this.timer);
    clearTimeout(this.retrying);
  }

  again() {
    this.deliver();
    this.ask();
  }

  /** Count what waits, for the progress bar: a label that waits is one more, and an undo takes one back. */
  count() {
    const items = this.outbox.read();
    const labels = (item) => (item.answers ? item.answers.filter((answer) => answer.label !== null).length : item.type === "undo" ? -1 : 0);
    this.set("pending", Math.max(0, items.reduce((sum, item) => sum + labels(item), 0)));
    if (this.away) this.set("waiting", `${this.away} ${items.length ? `${plural(items.length, "answer")} ${items.length === 1 ? "is" : "are"} waiting in this browser and will be sent.` : ""}`.trim());
    else if (this.values.waiting) this.set("waiting", "");
  }

  /** Send what is in the outbox, one after the other; at most one such loop runs. */
  async deliver() {
    if (this.delivering) return;
    this.delivering = true;
    try {
      for (let item = this.outbox.read()[0]; item && !this.stopped; item = this.outbox.read()[0]) {
        if (!(await this.deliverOne(item))) return;
        this.outbox.write(this.outbox.read().filter((other) => other.key !== item.key));
        this.count();
      }
    } finally {
      this.delivering = false;
    }
    if (!this.stopped && this.values.rows.length === 0) this.ask();
  }

  /** Send one item; return whether it is dealt with. */
  async deliverOne(item) {
    try {
      const { type, ...body } = item;
      const reply = await api(type, body);
      this.reached();
      this.accepted(item, reply);
      return true;
    } catch (error) {
      if (this.unreachable(error)) return false;
      const ids = (item.answers ?? []).map((answer) => answer.id);
      this.emit("msg:custom", { type: "refused", ids, error: error.message });
      this.ask();
      return true;
    }
  }

  accepted(item, reply) {
    this.accepts += 1;
    if (item.type === "undo") {
      const { undone, row } = reply;
      if (row) this.set("rows", [row, ...this.values.rows.filter((other) => other.id !== row.id)]);
      this.emit("msg:custom", { type: "undone", key: item.key, id: undone?.id ?? null, row });
    } else if (item.type === "tell") {
      const ids = new Set(item.answers.map((answer) => answer.id));
      this.values.rows = this.values.rows.filter((row) => !ids.has(row.id));
    }
    if (!reply.progress) return;
    if (reply.progress.round !== this.round) this.all = false; // more rows were chosen meanwhile
    this.set("progress", reply.progress);
  }

  /** Handle an error of a request: true if the server cannot be reached or we are signed out, false if it refused the request. */
  unreachable(error) {
    if (error instanceof Refused && error.status === 401) {
      this.onSignedOut(this.outbox.read().length);
      return true;
    }
    if (error instanceof Refused && error.status < 500 && ![408, 425, 429].includes(error.status)) return false;
    this.away = "The server cannot be reached.";
    this.count();
    clearTimeout(this.retrying);
    if (!this.stopped) this.retrying = setTimeout(() => this.again(), this.retry);
    this.retry = Math.min(2 * this.retry, 8000);
    return true;
  }

  reached() {
    this.retry = 500;
    if (!this.away) return;
    this.away = "";
    this.count();
  }

  // -- rows from the server --

  /** Get the rows that this person holds, and more of them; a reload gives the same rows. */
  async ask() {
    if (this.asking || this.stopped) return;
    this.asking = true;
    clearTimeout(this.timer);
    const before = this.accepts;
    try {
      const reply = await api("ask", { n: Math.min(100, this.wanted) });
      this.reached();
      this.received(reply);
    } catch (error) {
      if (!this.unreachable(error)) this.set("note", error.message);
    } finally {
      this.asking = false;
    }
    if (this.accepts !== before && !this.delivering) this.ask(); // the reply may be older than the latest answer
  }

  received(reply) {
    const pending = new Set();
    for (const item of this.outbox.read()) for (const answer of item.answers ?? []) pending.add(answer.id);
    const rows = reply.rows.filter((row) => !pending.has(row.id));
    this.all = reply.rows.length < Math.min(100, this.wanted); // the round has no more rows for this person
    this.values.note = reply.note || (reply.finished ? "Nothing is left to ask." : reply.rows.length ? "Saving…" : "Looking for rows…");
    this.values.progress = reply.progress ?? this.values.progress;
    this.round = reply.progress?.round;
    const undecided = reply.rows.length ? 0 : (reply.progress?.to_decide ?? 0);
    this.values.link = undecided && this.isOwner ? { href: "/review", view: "review", text: `Decide ${plural(undecided, "row")} in Review` } : null;
    this.countDown(reply.rows.length ? null : reply.seconds_left);
    this.set("rows", rows);
    if (reply.rows.length || reply.finished || this.stopped) return;
    this.timer = setTimeout(() => this.ask(), reply.fitting || reply.progress?.fitting ? SOON : LATER);
  }

  /** Show how long the wait will take, second by second. */
  countDown(seconds) {
    clearInterval(this.counting);
    this.values.seconds = typeof seconds === "number" ? Math.ceil(seconds) : null;
    if (this.values.seconds === null || this.stopped) return;
    this.counting = setInterval(() => this.set("seconds", Math.max(0, this.values.seconds - 1)), 1000);
  }
}
