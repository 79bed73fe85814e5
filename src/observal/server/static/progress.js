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

/** Rounds whose error has been computed. */
const measured = (rounds) => rounds.filter((round) => round.error);

/** The error with its interval against labels bought, for rounds whose error has been computed. */
function chart(rounds, budget, height) {
  const width = innerWidth < 640 ? 420 : 860; // so that letters keep their size on a phone
  const last = rounds.at(-1).error;
  const most = Math.max(budget ?? 0, ...rounds.map((round) => round.labels), 1);
  const across = ticks(most, width / 140);
  const up = ticks(Math.min(1, Math.max(...rounds.map((round) => round.error.high)) * 1.05), 4);
  const x = (labels) => EDGE.left + ((width - EDGE.left - EDGE.right) * labels) / Math.max(most, across.at(-1));
  const y = (error) => height - EDGE.bottom - ((height - EDGE.top - EDGE.bottom) * error) / up.at(-1);
  const words = `The estimated error is ${percent(last.estimate)} after ${plural(rounds.at(-1).labels, "label")}, between ${percent(last.low)} and ${percent(last.high)}.`;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words });
  for (const value of up) {
    picture.append(svg("line", { class: "axis", x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value) }));
    picture.append(svg("text", { x: EDGE.left - 10, y: y(value) + 5, "text-anchor": "end" }, `${Number((100 * value).toFixed(2))} %`));
  }
  for (const value of across) picture.append(svg("text", { x: x(value), y: height - EDGE.bottom + 22, "text-anchor": "middle" }, String(value)));
  picture.append(svg("text", { x: width - EDGE.right, y: height - 4, "text-anchor": "end" }, "labels bought"));
  const high = rounds.map((round) => `${x(round.labels)},${y(Math.min(up.at(-1), round.error.high))}`);
  const low = rounds.map((round) => `${x(round.labels)},${y(round.error.low)}`).reverse();
  picture.append(svg("polygon", { class: "band", points: [...high, ...low].join(" ") }));
  for (const round of rounds) picture.append(svg("line", { class: "whisker", x1: x(round.labels), x2: x(round.labels), y1: y(round.error.low), y2: y(Math.min(up.at(-1), round.error.high)) }));
  picture.append(svg("polyline", { class: "line", points: rounds.map((round) => `${x(round.labels)},${y(round.error.estimate)}`).join(" ") }));
  for (const round of rounds) picture.append(svg("circle", { class: "point", cx: x(round.labels), cy: y(round.error.estimate), r: 4.5 }));
  return picture;
}

const cells = (tag, values) => h("tr", {}, values.map((value) => h(tag, tag === "th" ? { scope: "col" } : {}, value)));
export const table = (head, rows) => h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": head.join(", ") }, h("table", {}, h("thead", {}, cells("th", head)), h("tbody", {}, rows.map((row) => cells("td", row)))));

const fact = (name, value, more) => h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, h("span", { class: "big" }, value), h("span", { class: "quiet" }, more ?? "")));

function facts(status, rounds) {
  const progress = status.progress;
  const now = measured(rounds).at(-1);
  const left = progress.label_budget === null ? null : Math.max(0, progress.label_budget - progress.labels);
  const speed = progress.labels_per_hour;
  const agreement = status.agreement;
  return h("dl", { class: "facts" },
    now ? fact("Error", percent(now.error.estimate), `${percent(now.error.low)} to ${percent(now.error.high)}`) : fact("Error", "…", "not estimated yet"),
    fact("Labels", progress.labels.toLocaleString("en"), left === null ? "no budget" : `${left.toLocaleString("en")} left of ${progress.label_budget.toLocaleString("en")}`),
    fact("Labels per hour", speed === null ? "–" : String(Math.round(speed)), speed && left ? `${hours(left / speed)} to go` : ""),
    agreement ? fact("Agreement", percent(agreement.share, 0), `on ${plural(agreement.rows, "row")}${agreement.kappa === null ? "" : `, kappa ${agreement.kappa.toFixed(2)}`}`) : null);
}

function hours(time) {
  if (time < 1) return `about ${Math.max(1, Math.round(60 * time))} min`;
  return `about ${time < 10 ? time.toFixed(1) : Math.round(time)} h`;
}

function draw(el, status, { rounds, stopping }) {
  const progress = status.progress;
  const from = progress.model_round === null ? "" : `The model is from round ${progress.model_round}${progress.model_round === 0 ? ", the log alone" : ""}. `;
  const fitting = progress.fitting ? "A new model is being fitted." : "";
  const open = el.querySelector("details")?.open ?? false;
  fill(el, h("h1", {}, "Progress"), facts(status, rounds),
    h("div", { class: "card" }, errorFigure(measured(rounds), progress.label_budget, from + fitting),
      h("p", { class: "stopping" }, status.stopped ? `Finished: ${status.stopped}.` : stopping.sentence), measured(rounds).length ? roundTable(rounds, open) : null),
    h("h2", {}, "People"),
    status.annotators.length ? table(["Name", "Answers", "Rows held"], status.annotators.map((person) => [person.name, String(person.answers), String(person.held)])) : h("p", { class: "quiet" }, "There are no answers yet."),
    status.notes.length ? [h("h2", {}, "Notes"), h("ul", { class: "quiet" }, status.notes.map((note) => h("li", {}, note)))] : null);
}

function errorFigure(rounds, budget, text) {
  if (!rounds.length) return h("p", { class: "quiet" }, "The error is being estimated from the log. This takes a moment.");
  const caption = `The estimated error with its ${percent(rounds.at(-1).error.confidence, 0)} interval, after each round. ${text}`;
  return h("figure", { class: "chart" }, chart(rounds, budget, TALL), h("figcaption", { class: "quiet" }, caption));
}

function roundTable(rounds, open) {
  const rows = rounds.map(({ round, labels, error }) => [String(round), String(labels), error ? percent(error.estimate) : "not yet", error ? `${percent(error.low)} to ${percent(error.high)}` : ""]);
  return h("details", { open }, h("summary", {}, "The same as a table"), table(["Round", "Labels", "Error", "Interval"], rows));
}

/** Load something every few seconds, and draw it if it has changed; returns how to stop. */
function keepUpdating(load, draw, failed) {
  let drawn = "";
  let timer;
  let stopped = false;
  async function update() {
    try {
      const content = await load();
      const now = JSON.stringify(content);
      if (now !== drawn && !stopped) draw(content);
      drawn = now;
    } catch (error) {
      failed(error);
    }
    if (!stopped) timer = setTimeout(update, EVERY);
  }
  update();
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}

/** A small chart below the label view, so that people see what their answers achieve; returns how to stop it. */
export function effort(el, budget) {
  const load = async () => (document.visibilityState === "visible" ? measured((await api("rounds")).rounds) : []);
  return keepUpdating(load, (rounds) => rounds.length && drawEffort(el, rounds, budget), () => {
    // The label view says when the server cannot be reached.
  });
}

function drawEffort(el, rounds, budget) {
  const { labels, error } = rounds.at(-1);
  const words = `Our best guess after ${plural(labels, "label")} is ${percent(error.estimate)}. Your answers make the interval narrower.`;
  fill(el, h("h2", {}, `Error: ${percent(error.low)} to ${percent(error.high)}`), h("p", { class: "quiet" }, words), h("div", { class: "chart" }, chart(rounds, budget, LOW)));
  el.hidden = false;
}

export function render({ el, onSignedOut }) {
  const box = h("section", { "aria-label": "Progress" });
  const away = h("p", { class: "quiet", role: "status" });
  fill(el, box, away);
  async function load() {
    const replies = await Promise.all([api("status"), api("rounds")]);
    away.textContent = "";
    return replies;
  }
  return keepUpdating(load, ([status, rounds]) => draw(box, status, rounds), (error) => {
    if (error instanceof Refused && error.status === 401) onSignedOut();
    else away.textContent = error instanceof Refused ? error.message : "The server cannot be reached. This page keeps trying.";
  });
}
