// The page: who is signed in, which view is shown, and moving between views without loading the page again.

import { offerHelp } from "./help.js";
import labeller, { fill, h, plural } from "./labeller.js";
import { api, Refused, send, ServerModel, watchProgress } from "./outbox.js";
import * as progress from "./progress.js";
import * as review from "./review.js";

const main = document.getElementById("view");
const TITLES = { label: "Label", progress: "Progress", review: "Review" };
let leave = () => {};

const viewAt = (path) => ({ "/progress": "progress", "/review": "review" })[path] ?? "label";

function message(title, text) {
  leave();
  leave = () => {};
  document.getElementById("views").hidden = true;
  fill(main, h("section", { class: "message card" }, h("h1", {}, title), h("p", {}, text)));
}

function signedOut(waiting = 0) {
  const outbox = waiting ? ` ${waiting} of your answers ${waiting === 1 ? "is" : "are"} waiting in this browser and will be sent when you sign in again.` : "";
  message("Please sign in", `Open your own link, which the owner of this campaign can give you; observal serve prints the owner's.${outbox}`);
}

/** Show a link's page. Only its button uses the link up, because scanners of mail follow links. */
function offerSignIn() {
  const refusal = h("p", { role: "alert" });
  const button = h("button", { class: "primary", type: "button" }, "Sign in");
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await send("/login", { token: new URLSearchParams(location.search).get("token") });
      location.replace("/"); // the token leaves the address bar and the history
    } catch (error) {
      refusal.textContent = error instanceof Refused ? error.message : "The server cannot be reached; try again.";
      button.disabled = false;
    }
  });
  document.title = "Sign in · observal";
  fill(main, h("section", { class: "message card" }, h("h1", {}, "Welcome"), h("p", {}, "This link signs you in once, in this browser."), button, refusal));
  button.focus();
}

function labelView(me) {
  const model = new ServerModel(me);
  model.onSignedOut = signedOut;
  const rows = h("div");
  const below = h("section", { class: "effort card", "aria-label": "Error so far", hidden: true });
  fill(main, rows, below);
  const stops = [offerHelp(rows, me.campaign), labeller.render({ model, el: rows }), progress.effort(below, me), () => model.stop()];
  model.start();
  return () => stops.forEach((stop) => stop());
}

function show(me) {
  const view = me.role === "owner" || viewAt(location.pathname) !== "review" ? viewAt(location.pathname) : "label";
  leave();
  fill(main);
  for (const link of document.querySelectorAll("#views [data-view]")) {
    link.toggleAttribute("hidden", link.dataset.view === "review" && me.role !== "owner");
    if (link.dataset.view === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${TITLES[view]} · ${me.campaign.title || me.campaign.label} · observal`;
  if (view === "label") leave = labelView(me);
  else leave = (view === "progress" ? progress : review).render({ el: main, me, onSignedOut: signedOut });
}

/** Ask who is here; while the server cannot be reached, ask again. */
async function start() {
  let me;
  try {
    me = await api("me");
  } catch (error) {
    if (error instanceof Refused && error.status < 500) return error.status === 401 ? signedOut() : message("This page cannot be shown", error.message);
    message("The server cannot be reached", "This page keeps trying.");
    return setTimeout(start, 2000);
  }
  document.getElementById("views").hidden = false;
  document.getElementById("who").textContent = me.name;
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[data-view]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    history.pushState(null, "", link.getAttribute("href"));
    show(me);
  });
  addEventListener("popstate", () => show(me));
  if (me.role === "owner") showUndecided();
  show(me);
}

/** Show beside Review how many rows wait for a decision, now and after each reply that says so. */
function showUndecided() {
  const badge = document.getElementById("undecided");
  watchProgress(({ to_decide: count }) => {
    badge.hidden = !count;
    badge.replaceChildren(h("span", { "aria-hidden": "true" }, String(count)), h("span", { class: "unseen" }, `, ${plural(count, "row")} to decide`));
  });
  api("status").catch(() => {}); // the view says when the server cannot be reached
}

if (location.pathname === "/login") offerSignIn();
else start();
