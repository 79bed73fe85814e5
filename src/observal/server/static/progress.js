// The progress view: the error with its interval against labels bought, and what is left to do. It updates by itself.

import { fill, h, percent, plural } from "./labeller.js";
import { api, download, Refused } from "./outbox.js";

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

/** Rounds whose error has been computed and whose interval says something. */
const measured = (rounds) => rounds.filter((round) => round.error?.known);
const ends = (error) => `${percent(error.low)} to ${percent(error.high)}`;

/** The error's interval against labels bought, for rounds where it is known; estimates only where the interval is narrow. */
function chart(rounds, budget, height) {
  const width = innerWidth < 640 ? 420 : 860; // so that letters keep their size on a phone
  const last = rounds.at(-1).error;
  const most = Math.max(budget ?? 0, ...rounds.map((round) => round.labels), 1);
  const across = ticks(most, width / 140);
  const up = ticks(Math.min(1, Math.max(...rounds.map((round) => round.error.high)) * 1.05), 4);
  const x = (labels) => EDGE.left + ((width - EDGE.left - EDGE.right) * labels) / Math.max(most, across.at(-1));
  const y = (error) => height - EDGE.bottom - ((height - EDGE.top - EDGE.bottom) * error) / up.at(-1);
  const words = `The error after ${plural(rounds.at(-1).labels, "label")} is ${last.words}.`;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words });
  for (const value of up) {
    picture.append(svg("line", { class: "axis", x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value) }));
    picture.append(svg("text", { x: EDGE.left - 10, y: y(value) + 5, "text-anchor": "end" }, `${Number((100 * value).toFixed(2))}%`));
  }
  for (const value of across) picture.append(svg("text", { x: x(value), y: height - EDGE.bottom + 22, "text-anchor": "middle" }, String(value)));
  picture.append(svg("text", { x: width - EDGE.right, y: height - 4, "text-anchor": "end" }, "labels bought"));
  const high = rounds.map((round) => `${x(round.labels)},${y(Math.min(up.at(-1), round.error.high))}`);
  const low = rounds.map((round) => `${x(round.labels)},${y(round.error.low)}`).reverse();
  picture.append(svg("polygon", { class: "band", points: [...high, ...low].join(" ") }));
  for (const round of rounds) picture.append(svg("line", { class: "whisker", x1: x(round.labels), x2: x(round.labels), y1: y(round.error.low), y2: y(Math.min(up.at(-1), round.error.high)) }));
  const guessed = rounds.filter((round) => round.error.estimate !== null);
  picture.append(svg("polyline", { class: "line", points: guessed.map((round) => `${x(round.labels)},${y(round.error.estimate)}`).join(" ") }));
  for (const round of guessed) picture.append(svg("circle", { class: "point", cx: x(round.labels), cy: y(round.error.estimate), r: 4.5 }));
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
    now ? fact("Error", ends(now.error), now.error.estimate === null ? "too early for an estimate" : `estimate ${percent(now.error.estimate)}`) : fact("Error", "not known yet", rounds.some((round) => round.error) ? "too few labels" : "it is being computed"),
    fact("Labels", progress.labels.toLocaleString("en"), left === null ? "no budget" : `${left.toLocaleString("en")} left of ${progress.label_budget.toLocaleString("en")}`),
    fact("Labels per hour", speed === null ? "–" : String(Math.round(speed)), speed && left ? `${hours(left / speed)} to go` : ""),
    agreement ? fact("Agreement", percent(agreement.share), `on ${plural(agreement.rows, "row")}${agreement.kappa === null ? "" : `, kappa ${agreement.kappa.toFixed(2)}`}`) : null);
}

function hours(time) {
  if (time < 1) return `about ${Math.max(1, Math.round(60 * time))} min`;
  return `about ${time < 10 ? time.toFixed(1) : Math.round(time)} h`;
}

function draw(el, status, { rounds, stopping, waiting }) {
  const progress = status.progress;
  const from = progress.model_round === null ? "" : `The model is from round ${progress.model_round}${progress.model_round === 0 ? ", the log alone" : ""}. `;
  const fitting = progress.fitting ? "A new model is being fitted." : "";
  const open = el.querySelector("details")?.open ?? false;
  fill(el, h("h1", {}, "Progress"), facts(status, rounds),
    h("div", { class: "card" }, errorFigure(rounds, progress.label_budget, from + fitting),
      h("p", { class: "stopping" }, status.stopped ? `Finished: ${status.stopped}.` : stopping.sentence), waiting ? h("p", { class: "waiting" }, waiting) : null, measured(rounds).length ? roundTable(rounds, open) : null),
    h("h2", {}, "People"),
    status.annotators.length ? table(["Name", "Answers", "Rows held"], status.annotators.map((person) => [person.name, String(person.answers), String(person.held)])) : h("p", { class: "quiet" }, "There are no answers yet."),
    status.notes.length ? [h("h2", {}, "Notes"), h("ul", { class: "quiet" }, status.notes.map((note) => h("li", {}, note)))] : null);
}

function errorFigure(rounds, budget, text) {
  const known = measured(rounds);
  if (!known.length) return h("p", { class: "quiet" }, unknownError(rounds));
  const caption = `The error's ${percent(known.at(-1).error.confidence)} interval after each round, with an estimate once it is narrow enough. ${text}`;
  return h("figure", { class: "chart" }, chart(known, budget, TALL), h("figcaption", { class: "quiet" }, caption));
}

/** Why there is no error to show. */
function unknownError(rounds) {
  if (!rounds.some((round) => round.error)) return "The error is being computed from the log. This takes a moment.";
  return "The error is not known yet: there are too few labels. It is shown here as soon as there are enough.";
}

function roundTable(rounds, open) {
  const rows = rounds.map(({ round, labels, error }) => [String(round), String(labels), error === null ? "being computed" : error.known ? ends(error) : "not known yet", error?.known && error.estimate !== null ? percent(error.estimate) : "–"]);
  return h("details", { open }, h("summary", {}, "The same as a table"), table(["Round", "Labels", "Error", "Estimate"], rows));
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

/** A card below the label view: what the answers achieve so far or, at the end, what was reached and what next; returns how to stop it. */
export function effort(el, me) {
  const load = async () => (document.visibilityState === "visible" ? await api("rounds") : null);
  return keepUpdating(load, (reply) => reply && drawEffort(el, reply, me), () => {
    // The label view says when the server cannot be reached.
  });
}

function drawEffort(el, { rounds, stopped, waiting, fitting }, me) {
  const known = measured(rounds);
  const picture = known.length ? h("div", { class: "chart" }, chart(known, me.campaign.label_budget, LOW)) : null;
  if (stopped) fill(el, reached(rounds, fitting), picture, me.role === "owner" ? ownersEnd(me) : h("p", {}, "Thank you. The owner of the campaign can now download the model and the report."));
  else if (rounds.length) fill(el, soFar(rounds, waiting), picture);
  el.hidden = !el.childElementCount;
}

const warned = ({ warning }) => (warning ? h("p", {}, warning) : null);

function soFar(rounds, waiting) {
  const now = measured(rounds).at(-1);
  if (!now) return [h("h2", {}, "Error: not known yet"), h("p", { class: "quiet" }, `${unknownError(rounds)} ${waiting}`)];
  return [warned(now), h("h2", {}, `Error: ${ends(now.error)}`), h("p", { class: "quiet" }, `After ${plural(now.labels, "label")} it is ${now.error.words}. ${waiting || "Your answers make the interval narrower."}`)];
}

function reached(rounds, fitting) {
  const [first, last] = [rounds[0], rounds.at(-1)];
  const title = h("h2", {}, "What was reached");
  if (fitting || !last?.error) return [title, h("p", {}, "The last answers are being counted. This takes a moment.")];
  const before = last.labels && first.error ? ` Before the first bought label it was ${first.error.words}.` : "";
  return [warned(last), title, h("p", {}, `After ${plural(last.labels, "label")} the error is ${last.error.words}.${before}`)];
}

/** What an owner can do once nothing is left to ask. */
function ownersEnd(me) {
  const said = h("p", { class: "quiet", role: "status" });
  const button = (text, path) => {
    const pressed = h("button", { type: "button", class: "primary" }, text);
    pressed.addEventListener("click", async () => {
      pressed.disabled = true;
      said.textContent = path === "report" ? "Writing the report…" : "Writing the model…";
      try {
        await download(path);
        said.textContent = "Saved to your downloads.";
      } catch (error) {
        said.textContent = error instanceof Refused ? error.message : "The server cannot be reached. Please try again.";
      }
      pressed.disabled = false;
    });
    return pressed;
  };
  const more = me.campaign.label_budget === null ? null : h("li", {}, "If the error is still too high, buy more labels: ", h("code", {}, `observal extend ${me.campaign.name} --budget ${2 * me.campaign.label_budget}`), ", then reload this page.");
  return [
    h("div", { class: "downloads" }, button("Download the report", "report"), button("Download the model", "export"), said),
    h("h2", {}, "What next?"),
    h("ul", {}, h("li", {}, "Read the report: it says whether to use the model, to buy more labels or to stop."),
      h("li", {}, "Use the model in Python: ", h("code", {}, `observal.load_model("${me.campaign.name.replace(/\.[^.]*$/, "")}.model").predict(rows)`)), more),
  ];
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
