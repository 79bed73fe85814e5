// The progress view: the error with its interval against labels bought, and what is left to do. It updates by itself.

import { fill, h, percent, plural } from "./labeller.js";
import { api, Refused } from "./outbox.js";

const EVERY = 3000;
const SVG = "http://www.w3.org/2000/svg";
const TALL = 320;
const LOW = 210; // below the row that is being labelled
const EDGE = { left: 58, right: 16, top: 14, bottom: 44 };

function svg(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** Round numbers from 0 to at least `most`, about `count` of them. */
export function ticks(most, count) {
  const rough = most / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, place) => Number((place * step).toPrecision(12)));
}

function chart(rounds, budget, height) {
  const width = innerWidth < 640 ? 420 : 860; // so that letters keep their size on a phone
  const known = rounds.filter((round) => round.error);
  const last = known.at(-1).error;
  const most = Math.max(budget ?? 0, ...known.map((round) => round.labels), 1);
  const across = ticks(most, width / 140);
  const up = ticks(Math.min(1, Math.max(...known.map((round) => round.error.high)) * 1.05), 4);
  const x = (labels) => EDGE.left + ((width - EDGE.left - EDGE.right) * labels) / Math.max(most, across.at(-1));
  const y = (error) => height - EDGE.bottom - ((height - EDGE.top - EDGE.bottom) * error) / up.at(-1);
  const words = `The estimated error is ${percent(last.estimate)} after ${plural(known.at(-1).labels, "label")}, between ${percent(last.low)} and ${percent(last.high)}.`;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words });
  for (const value of up) {
    picture.append(svg("line", { class: "axis", x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value) }));
    picture.append(svg("text", { x: EDGE.left - 10, y: y(value) + 5, "text-anchor": "end" }, `${Number((100 * value).toFixed(2))} %`));
  }
  for (const value of across) picture.append(svg("text", { x: x(value), y: height - EDGE.bottom + 22, "text-anchor": "middle" }, String(value)));
  picture.append(svg("text", { x: width - EDGE.right, y: height - 4, "text-anchor": "end" }, "labels bought"));
  const high = known.map((round) => `${x(round.labels)},${y(Math.min(up.at(-1), round.error.high))}`);
  const low = known.map((round) => `${x(round.labels)},${y(round.error.low)}`).reverse();
  picture.append(svg("polygon", { class: "band", points: [...high, ...low].join(" ") }));
  for (const round of known) picture.append(svg("line", { class: "whisker", x1: x(round.labels), x2: x(round.labels), y1: y(round.error.low), y2: y(Math.min(up.at(-1), round.error.high)) }));
  picture.append(svg("polyline", { class: "line", points: known.map((round) => `${x(round.labels)},${y(round.error.estimate)}`).join(" ") }));
  for (const round of known) picture.append(svg("circle", { class: "point", cx: x(round.labels), cy: y(round.error.estimate), r: 4.5 }));
  return picture;
}

const cells = (tag, values) => h("tr", {}, values.map((value) => h(tag, tag === "th" ? { scope: "col" } : {}, value)));
export const table = (head, rows) => h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": head.join(", ") }, h("table", {}, h("thead", {}, cells("th", head)), h("tbody", {}, rows.map((row) => cells("td", row)))));

const fact = (name, value, more) => h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, h("span", { class: "big" }, value), h("span", { class: "quiet" }, more ?? "")));

function facts(status, rounds) {
  const progress = status.progress;
  const now = rounds.filter((round) => round.error).at(-1);
  const left = progress.label_budget === null ? null : Math.max(0, progress.label_budget - progress.labels);
  const speed = progress.labels_per_hour;
  const agreement = status.agreement;
  return h("dl", { class: "facts" },
    now ? fact("Error", percent(now.error.estimate), `${percent(now.error.low)} to ${percent(now.error.high)}`) : fact("Error", "…", "not estimated yet"),
    fact("Labels", progress.labels.toLocaleString("en"), left === null ? "no budget" : `${left.toLocaleString("en")} left of ${progress.label_budget.toLocaleString("en")}`),
    fact("Labels per hour", speed === null ? "–" : String(Math.round(speed)), speed && left ? `${hours(left / speed)} to go` : ""),
    agreement ? fact("Agreement", percent(agreement.share, 0), `on ${plural(agreement.rows, "row")}${agreement.kappa === null || agreement.kappa === undefined ? "" : `, kappa ${agreement.kappa.toFixed(2)}`}`) : null);
}

function hours(time) {
  if (time < 1) return `about ${Math.max(1, Math.round(60 * time))} min`;
  return `about ${time < 10 ? time.toFixed(1) : Math.round(time)} h`;
}

function draw(el, status, { rounds, stopping }) {
  const known = rounds.filter((round) => round.error);
  const progress = status.progress;
  const model = progress.fitting ? "A new model is being fitted." : "";
  const from = progress.model_round === null || progress.model_round === undefined ? "" : `The model is from round ${progress.model_round}${progress.model_round === 0 ? ", the log alone" : ""}. `;
  const rows = rounds.map((round) => [String(round.round), String(round.labels), round.error ? percent(round.error.estimate) : "not yet", round.error ? `${percent(round.error.low)} to ${percent(round.error.high)}` : ""]);
  const open = el.querySelector("details")?.open ?? false;
  const details = h("details", {}, h("summary", {}, "The same as a table"), table(["Round", "Labels", "Error", "Interval"], rows));
  details.open = open;
  fill(el, h("h1", {}, "Progress"), facts(status, rounds),
    h("div", { class: "card" },
      known.length ? h("figure", { class: "chart" }, chart(known, progress.label_budget, TALL), h("figcaption", { class: "quiet" }, `The estimated error with its ${percent(known.at(-1).error.confidence ?? 0.95, 0)} interval, after each round. ${from}${model}`))
        : h("p", { class: "quiet" }, "The error is being estimated from the log. This takes a moment."),
      h("p", { class: "stopping" }, status.stopped ? `Finished: ${status.stopped}.` : stopping?.sentence ?? ""), known.length ? details : null),
    h("h2", {}, "People"),
    status.annotators.length ? table(["Name", "Answers", "Rows held"], status.annotators.map((one) => [one.name, String(one.answers), String(one.held)])) : h("p", { class: "quiet" }, "Nobody has answered yet."),
    status.notes.length ? h("h2", {}, "Notes") : null, status.notes.length ? h("ul", { class: "quiet" }, status.notes.map((note) => h("li", {}, note))) : null);
}

/** A small chart below the label view, so that people see what their answers are good for; returns how to stop it. */
export function effort(el, budget) {
  let drawn = "";
  let timer;
  async function update() {
    try {
      const { rounds } = document.visibilityState === "visible" ? await api("rounds") : { rounds: [] };
      const known = rounds.filter((round) => round.error);
      const now = JSON.stringify(known);
      if (known.length && now !== drawn) {
        drawEffort(el, known, budget);
        drawn = now;
      }
    } catch {
      // The label view says when the server cannot be reached.
    }
    timer = setTimeout(update, EVERY);
  }
  update();
  return () => clearTimeout(timer);
}

function drawEffort(el, known, budget) {
  const { labels, error } = known.at(-1);
  const words = `Our best guess after ${plural(labels, "label")} is ${percent(error.estimate)}. Your answers make the interval narrower.`;
  fill(el, h("h2", {}, `Error: ${percent(error.low)} to ${percent(error.high)}`), h("p", { class: "quiet" }, words), h("div", { class: "chart" }, chart(known, budget, LOW)));
  el.hidden = false;
}

export function render({ el, onSignedOut }) {
  const box = h("section", { "aria-label": "Progress" });
  const away = h("p", { class: "quiet", role: "status" });
  fill(el, box, away);
  let drawn = "";
  let timer;
  let stopped = false;
  async function update() {
    try {
      const [status, rounds] = await Promise.all([api("status"), api("rounds")]);
      const now = JSON.stringify([status, rounds]);
      if (now !== drawn && !stopped) draw(box, status, rounds);
      drawn = now;
      away.textContent = "";
    } catch (error) {
      if (error instanceof Refused && error.status === 401) return onSignedOut();
      away.textContent = error instanceof Refused ? error.message : "The server cannot be reached. This page keeps trying.";
    }
    if (!stopped) timer = setTimeout(update, EVERY);
  }
  update();
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}
