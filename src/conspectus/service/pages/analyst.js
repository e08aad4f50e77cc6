"use strict";
// The analyst's page: what is served, its promise, questions, tables, synthetic rows.
// Picking asks a published release at once, since asking costs nothing there. Of a live session it fetches a quote, and
// only the button asks. The token of the session is held in this variable and nowhere else.

let token = null;
let here = null;      // {kind, name, about}
let picks = {};       // codes by column
let past = [];        // what was asked of a release in this tab
let asking = 0;       // the newest request: older answers are not shown any more
let refocus = false;  // whether the token box gets the focus when it is shown next
const DROP = "Nothing. The table was not looked at.";

async function call(path, body, raw) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try { response = await fetch(path, { method: body === undefined ? "GET" : "POST", headers, body: body === undefined ? undefined : JSON.stringify(body) }); }
  catch { throw { error: "away", title: "The service does not answer", text: "It may have been stopped, or the connection is gone. Nothing was spent.", repairs: [] }; }
  if (!response.ok) {
    const said = await response.json().catch(() => null);
    throw said && said.title ? said : { error: "failed", title: "Not answered", text: `The service said ${response.status} and gave no reason.`, repairs: [] };
  }
  return raw ? response.blob() : response.json();
}
const base = () => `/${here.kind}/${encodeURIComponent(here.name)}`;
const live = () => here.kind === "sessions";
const word = (many = true) => here.about.row_words[many ? 1 : 0];
const share = (x) => pct(x / here.about.total);
const of = () => (here.about.rows === null ? "" : `of ${here.about.rows_public ? "" : "about "}${n(here.about.rows)}`);
const often = (c) => `in ${digits(100 * c, 3)} of 100 ${live() ? "sessions" : "releases"}`;

// ---- what is served --------------------------------------------------------------------------------------------

async function start() {
  document.body.append(patterns());
  tabs($("how"));
  $("t-pick").addEventListener("click", () => how(false));
  $("t-sql").addEventListener("click", () => how(true));
  $("clear").addEventListener("click", () => { picks = {}; $("q").value = ""; facetStates(); question(); });
  $("go").addEventListener("click", () => ask());
  $("q").addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask(); });
  addEventListener("hashchange", route);
  await route();
}
async function route() {
  const [, kind, name, query] = location.hash.match(/^#(synopses|sessions)\/([^?]+)(?:\?where=(.*))?$/) || [];
  if (!kind && location.hash.length > 1 && here) return;
  let synopses = [];
  try { synopses = (await call("/synopses")).synopses; } catch (refused) { if (!kind) return choose([], [], refused); }
  let sessions = [];
  if (token) { try { sessions = (await call("/sessions")).sessions; } catch { /* the token box says so */ } }
  if (kind) return open(kind, decodeURIComponent(name), query && decodeURIComponent(query));
  if (synopses.length === 1 && !token) return open("synopses", synopses[0].name);
  return choose(synopses, sessions);
}
function tokenBox(said) {
  const input = h("input", { type: "password", id: "token", autocomplete: "off", spellcheck: "false" });
  const use = async (event) => {
    event.preventDefault();
    token = input.value.trim() || null;
    try { const { sessions } = await call("/sessions"); choose((await call("/synopses")).synopses, sessions); $("served")?.querySelector("a")?.focus(); }
    catch (refused) { token = null; fill(box, h("b", {}, refused.title), " ", refused.error === "token" ? "This token is not known here. Ask the owner for another one." : refused.text); box.hidden = false; }
  };
  const box = h("p.box.warn", { role: "status", hidden: !said }, said || "");
  return h("form.card", { onsubmit: use, autocomplete: "off" }, h("h2", {}, "Live sessions"), h("p.soft.small", {}, "A live session answers from a budget that all who ask share. It needs the token that its owner gave you. The token stays in this tab."),
    h("div.controls", {}, h("label.field", { for: "token" }, "Token", input), h("button.btn", { type: "submit" }, "Use this token")), box);
}
function choose(synopses, sessions, refused) {
  here = null; document.title = "Conspectus";
  for (const id of ["promise", "ask", "asked", "tables", "rows", "guarantee"]) $(id).hidden = true;
  $("nav").hidden = true;
  const cards = [...synopses.map((one) => ["synopses", one]), ...sessions.map((one) => ["sessions", one])].map(([kind, one]) =>
    h("li.card", {}, h("a", { href: `#${kind}/${encodeURIComponent(one.name)}`, onclick: (event) => { if (event.target.hash === location.hash) open(kind, one.name); } }, one.table || one.name), h("p.small.soft", {}, kind === "sessions" ? "Live session" : `Published ${one.made}, ${count(one.questions, "question", "questions")}`),
      one.guarantee ? h("p.note", {}, one.guarantee) : null));
  fill($("choose"), h("p.eyebrow", {}, "Conspectus"), h("h1", {}, "What is served here"), h("p.lead", {}, "Numbers about people, with noise that hides each of them and an interval that says how much."),
    refused && refused.error !== "token" ? h("p.box.warn", { role: "status" }, h("b", {}, refused.title), " ", refused.text) : null,
    cards.length ? h("ul.served", { id: "served" }, cards) : h("p.soft", {}, "Nothing is published to everybody here."), tokenBox());
  $("choose").hidden = false;
  if (refocus) { refocus = false; $("token").focus(); }
}
async function open(kind, name, where) {
  here = { kind, name };
  try { here.about = await call(base()); }
  catch (refused) { return choose([], [], refused); }
  picks = {}; past = [];
  $("choose").hidden = true; $("nav").hidden = false;
  document.title = `${here.about.table} · Conspectus`;
  promise(); facets(); tables(); rows(); guarantee(); history();
  $("ask").hidden = $("asked").hidden = false;
  $("asktitle").textContent = `Ask: how many ${word()} …`;
  $("prefix").textContent = `SELECT count(*) FROM ${here.about.table} WHERE`;
  fill($("examples"), examples().map(([label, text]) => h("button.chip", { type: "button", onclick: () => { $("q").value = text; ask(); } }, label)));
  how(Boolean(where)); $("q").value = where || "";
  if (where && !live()) return ask();
  question();
}
function examples() {
  const found = [], columns = here.about.columns;
  const text = columns.find((one) => one.kind === "categorical" && one.codes), truth = columns.find((one) => one.kind === "boolean"), ordered = columns.find((one) => one.bounds && one.bounds.length > 2);
  const name = (one) => `"${one.name.replaceAll('"', '""')}"`, value = (label) => `'${label.replaceAll("'", "''")}'`;
  if (truth) found.push([truth.name, name(truth)]);
  if (text && truth) found.push([`${text.name} and ${truth.name}`, `${name(text)} = ${value(text.codes[0])} AND ${name(truth)}`]);
  if (ordered) found.push([`${ordered.name} from ${ordered.bounds[1][0]}`, `${name(ordered)} >= ${ordered.kind === "date" ? value(ordered.bounds[1][0]) : ordered.bounds[1][0]}`]);
  return found;
}

// ---- the promise -----------------------------------------------------------------------------------------------

function promise() {
  const a = here.about, m = a.meaning, one = a.unit_word, half = m.beliefs.find(([p]) => p === 0.5);
  const lead = live() ? `You are asking the records of ${a.rows_public ? "" : "about "}${count(a.rows, word(false), word())} through a guard. It answers each question with noise, from a budget that is shared by all who ask and cannot be refilled.`
    : `You are asking a published file ${a.rows === null ? "" : `about ${a.rows_public ? "" : "some "}${count(a.rows, word(false), word())}`}, not their records. Every number carries noise that hides each ${one}, and an interval that says how much. Asking costs nothing.`;
  const facts = [["Who is protected", a.guarantee.unit === "row" ? `one ${one}` : `one ${a.guarantee.unit}`, a.guarantee.neighbours === "replace" ? "replaced by any other" : "added or removed"],
    ["Privacy loss ε", String(outward(m.epsilon, 4, true)), m.implied ? `what ρ = ${digits(a.guarantee.rho, 4)} implies` : "exact: it is a promise"], ["Slack δ", rarity(m.delta), "how often ε may not hold"]];
  if (a.rows !== null) facts.push([word()[0].toUpperCase() + word().slice(1), `${a.rows_public ? "" : "about "}${n(a.rows)}`, a.rows_public ? "exact: declared public" : "bought with noise"]);
  if (live()) facts.push(["Questions prepared for", n(a.questions), `${n(a.asked)} asked so far`]);
  else if (a.certificate && a.rows) facts.push(["Every published answer", `within ${count(Math.ceil(a.certificate.bound * a.rows), word(false), word())}`, `of the truth, certified, ${often(1 - a.certificate.failure)}`]);
  else facts.push(["Published questions", n(a.questions), a.mechanism]);
  fill($("promise"), h("p.eyebrow", {}, live() ? "Live session" : `Published release · ${a.made}`), h("h1", {}, a.table), h("p.lead", {}, lead),
    a.warnings.map((text) => h("p.box.warn", {}, h("b", {}, "Warning. "), text)),
    h("div.card.promise", {}, h("div", {}, h("h2", { style: { fontSize: "19px" } }, `What each ${one} is promised`),
      h("p", { style: { margin: "8px 0" } }, `One ${one} changes only a little what anybody can learn here, whatever else they know. If you thought something about the person was as likely as not, the ${one} can move you to `, h("b", {}, atMost(half[2])), " at most, or to ", h("b", {}, atLeast(half[1])), m.delta > 0 ? " at least; the slack δ below says how often that may not hold." : " at least."),
      h("p.note", { style: { marginBottom: "8px" } }, "What you believed (dot), and the furthest it can be moved (bar)"), beliefs(m.beliefs)),
      h("div", {}, h("dl.facts", {}, facts.map(([name, value, why]) => [h("dt", {}, name), h("dd", {}, value, h("small", {}, why))])), h("p", { style: { marginTop: "12px" } }, h("a", { href: "#guarantee" }, "What this does not promise")))),
    h("div", { id: "gauge" }));
  $("promise").hidden = false;
  if (live()) gauge();
}
function gauge(quote) {
  const a = here.about, spent = a.spent / a.total, most = quote ? Math.min(quote.at_most, a.remaining) / a.total : 0;
  const part = (kind, x) => h(`i.${kind}`, { style: { width: `${Math.max(0, 100 * x).toFixed(2)}%` } });
  fill($("gauge"), h("div.card.gauge", {}, h("div.head", { style: { margin: 0 } }, h("h2", { style: { fontSize: "19px" } }, "Budget of this session"), h("span", {}, h("b", {}, pct(Math.max(0, 1 - spent))), h("span.soft", {}, " left, exact"))),
    h("div.gbar", { role: "meter", "aria-label": "Budget spent", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(100 * spent), "aria-valuetext": `${pct(spent)} spent, ${pct(Math.max(0, 1 - spent))} left` },
      part("g1", a.by_kind.measurements / a.total), part("g2", a.by_kind.watches / a.total), most > 0 ? part("g3", most) : null),
    h("div.keys", {}, h("span", {}, h("i.g1"), h("b", {}, share(a.by_kind.measurements)), " bought noisy counts: tables at the start, and surprises"), h("span", {}, h("i.g2"), h("b", {}, share(a.by_kind.watches)), ` ${count(a.watches, "watch", "watches")}, which compare guesses with the truth`), most > 0 ? h("span", {}, h("i.g3"), h("b", {}, pct(most)), " at most for the question below") : null),
    h("p.small.soft", {}, `Expected when it was opened: ${a.expectation}.`),
    a.restart_cost ? h("p.small.soft", {}, `The session went on in a new process, which took ${share(a.restart_cost)} for a new watch.`) : null,
    a.exhausted ? h("p.box.warn", {}, "The budget is at its end. New answers are guesses without intervals, unless measurements tell them; questions that were asked before keep theirs.") : null));
}

// ---- the question ----------------------------------------------------------------------------------------------

function how(sql) {
  $("pick").hidden = sql; $("sql").hidden = !sql;
  for (const [id, on] of [["t-pick", !sql], ["t-sql", sql]]) { $(id).setAttribute("aria-selected", on); $(id).tabIndex = on ? 0 : -1; }
  $("go").hidden = !sql && here && !live();
}
function facets() {
  const shown = here.about.columns.map((column, i) => {
    const id = `f${i}`, box = h("div.facet", { "data-column": column.name }, h("span", { id }, column.name));
    if (!column.codes) box.append(h("p.note", {}, `It has ${n(column.size)} values: type SQL to ask about some.`));
    else if (column.bounds && column.bounds.length > 2) box.append(range(column, id));
    else box.append(h("div.chips", { role: "group", "aria-labelledby": id }, column.codes.map((label, code) => chip(column, label, code))));
    return box;
  });
  const more = here.about.columns_in_all - shown.length;
  fill($("pick"), shown.slice(0, 12), shown.length > 12 ? h("details", {}, h("summary", {}, count(shown.length - 12, "more column", "more columns")), shown.slice(12)) : null, more > 0 ? h("p.note", {}, `${count(more, "more column", "more columns")} can be asked about in SQL.`) : null);
  facetStates();
}
const label = (column, text) => (column.kind === "boolean" && text === "true" ? "yes" : column.kind === "boolean" && text === "false" ? "no" : text);
function chip(column, text, code) {
  return h("button.chip", { type: "button", "data-code": code, "aria-pressed": "false", onclick: () => {
    const held = new Set(picks[column.name] || []);
    held.has(code) ? held.delete(code) : held.add(code);
    set(column, [...held].sort((x, y) => x - y));
  } }, label(column, text));
}
function range(column, id) {
  const bins = column.bounds.length, extra = column.codes.slice(bins);
  const select = (which, end) => h("select", { "aria-label": `${column.name}, ${which}`, "data-end": end, onchange: () => {
    const [from, to] = ends(column); const chosen = [from, to]; chosen[end] = Number(box.querySelector(`[data-end="${end}"]`).value);
    if (chosen[0] > chosen[1]) chosen[1 - end] = chosen[end];
    set(column, span(...chosen));
  } }, column.bounds.map((bound, code) => h("option", { value: code }, bound[end])));
  const shape = h("div.bins", { "aria-hidden": "true" }, column.bounds.map((_, code) => h("button", { type: "button", tabindex: -1, title: column.codes[code], onclick: () => {
    const [from, to, any] = ends(column);
    set(column, !any || from !== to ? span(code, code) : code === from ? [] : span(Math.min(from, code), Math.max(from, code)));
  } }, h("i", { style: { height: "8%" } }))));
  const box = h("div", {}, shape, h("div.fromto", { role: "group", "aria-labelledby": id }, h("span", {}, "from"), select("from", 0), h("span", {}, "to"), select("to", 1), extra.map((text, place) => chip(column, text, bins + place))));
  if (here.about.has_tables) call(`${base()}/table?by=${encodeURIComponent(column.name)}`).then(({ cells }) => {
    const most = Math.max(...cells.slice(0, bins).map((cell) => cell.count), 1);
    shape.querySelectorAll("i").forEach((one, code) => { one.style.height = `${Math.max(8, 100 * cells[code].count / most)}%`; });
  }).catch(() => { shape.hidden = true; }); else shape.hidden = true;
  return box;
}
const span = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => from + i);
function ends(column) {
  const held = (picks[column.name] || []).filter((code) => code < column.bounds.length);
  return held.length ? [held[0], held[held.length - 1], true] : [0, column.bounds.length - 1, false];
}
function set(column, codes) {
  if (!codes.length || codes.length === column.size || (column.bounds && codes.length === column.bounds.length && !column.missing)) delete picks[column.name];
  else picks[column.name] = codes;
  facetStates(); question();
}
function facetStates() {
  for (const box of document.querySelectorAll(".facet")) {
    const column = here.about.columns.find((one) => one.name === box.dataset.column), held = new Set(picks[column.name] || []);
    box.classList.toggle("on", held.size > 0);
    box.querySelectorAll("[data-code]").forEach((one) => one.setAttribute("aria-pressed", held.has(Number(one.dataset.code))));
    if (!column.bounds || !box.querySelector("select")) continue;
    const [from, to, any] = ends(column);
    box.querySelectorAll("select").forEach((one) => { one.value = one.dataset.end === "0" ? from : to; });
    box.querySelectorAll(".bins button").forEach((one, code) => one.classList.toggle("in", any && code >= from && code <= to));
  }
}
function asked() {
  if (!$("sql").hidden) { const where = $("q").value.trim(); return where ? { where } : null; }
  return Object.keys(picks).length ? { picks } : null;
}
let soon = null;
function question() {
  clearTimeout(soon);
  const body = asked();
  if (!body) { asking += 1; $("spelled").textContent = live() ? "Nothing picked yet." : "Nothing picked yet. Answers follow your picks."; return show(null); }
  soon = setTimeout(() => (live() ? quote(body) : ask()), 120);
}
async function quote(body) {
  const mine = ++asking;
  try {
    const quoted = await call(`${base()}/quote`, body);
    if (mine !== asking) return;
    $("spelled").textContent = quoted.where; $("q").value = quoted.where;
    gauge(quoted);
    const title = quoted.at_most ? `This would cost at most ${share(quoted.at_most)} of the budget` : "This would cost nothing";
    const why = quoted.free_because === "repeated" ? "It was asked before, perhaps in other words: you get the same answer." : quoted.at_most ? "If a watch is open and the guess is close enough, it costs nothing. The most is a new watch, and a measured answer." : "What was bought at the start answers it, or the budget is at its end.";
    fill($("out"), h("p.tag.plain", {}, "Not asked yet"), h("h3", { style: { margin: "14px 0 8px" } }, title), h("p", {}, why), quoted.affordable ? null : h("p.box.warn", {}, "What is left of the budget may not pay for this. The answer may come without an interval."), h("div.btns", {}, h("button.btn.main", { type: "button", onclick: () => ask() }, "Ask")));
    $("said").textContent = `${title}. ${why}`;
  } catch (refused) { if (mine === asking) show(refused); }
}
async function ask() {
  const body = asked();
  if (!body) return;
  if (body.where && isSelect(body.where)) return select(body.where);
  const mine = ++asking, wait = setTimeout(() => { if (mine === asking) waiting(); }, 150);
  $("go").disabled = true; $("go").textContent = "Asking";
  try {
    const answer = await call(`${base()}/ask`, body);
    if (mine !== asking) return;
    $("spelled").textContent = answer.where; if (!body.where) $("q").value = answer.where;
    if (!live() && past[0]?.where !== answer.where) past = [answer, ...past.filter((one) => one.where !== answer.where)].slice(0, 8);
    show(answer);
    if (live()) { here.about = await call(base()); gauge(); }
    history();
  } catch (refused) { if (mine === asking) { $("spelled").textContent = body.where || $("spelled").textContent; show(refused); } }
  finally { clearTimeout(wait); $("go").disabled = false; $("go").textContent = "Ask"; }
}
const isSelect = (text) => /^\s*select\b/i.test(text);
async function select(sql) {
  const mine = ++asking;
  waiting();
  try {
    const found = await call(`${base()}/query`, { sql });
    if (mine !== asking) return;
    $("spelled").textContent = sql;
    results(found);
    if (live()) { here.about = await call(base()); gauge(); history(); }
  } catch (refused) { if (mine === asking) show(refused); }
}
// The lines of a SELECT: each number beside its interval, or the words that there is none.
function results(found) {
  const place = Object.fromEntries(found.columns.map((name, i) => [name, i])), labels = found.columns.filter((name) => found.labels.includes(name));
  const number = (x) => (typeof x === "number" ? digits(x, Math.abs(x) >= 1000 ? Math.ceil(Math.log10(Math.abs(x) + 1)) : 4) : x === null ? "none" : String(x));
  const cells = (row) => found.measures.map(([x, low, high]) => [h("td.num", {}, h("b", {}, number(row[place[x]]))), h("td.num", {}, row[place[low]] === null || row[place[high]] === null ? "no interval" : `${number(row[place[low]])} to ${number(row[place[high]])}`)]);
  const text = `${count(found.rows.length, "line", "lines")}, each number with its interval, ${often(found.confidence)}.`;
  fill($("out"), h("h3", {}, text), h("div.scroll", { tabindex: 0, role: "region", "aria-label": "Answer to the SELECT", style: { marginTop: "12px" } }, h("table", {}, h("thead", {}, h("tr", {}, labels.map((name) => h("th", { scope: "col" }, name)), found.measures.map(([x]) => [h("th.num", { scope: "col" }, x), h("th.num", { scope: "col" }, "between")]))), h("tbody", {}, found.rows.slice(0, 500).map((row) => h("tr", {}, labels.map((name) => h("td", {}, row[place[name]] === null ? "missing" : String(row[place[name]]))), cells(row)))))),
    found.rows.length > 500 ? h("p.note", {}, "The first 500 lines are shown.") : null, found.notes.map((note) => h("p.small.soft", {}, `Note: ${note}.`)), h("div.rests", {}, h("span.tag.plain", {}, "Cost"), h("span", {}, !live() ? "Nothing. This release is paid for; ask as much as you like." : found.cost ? `${share(found.cost)} of the budget.` : "Nothing.")));
  $("said").textContent = text;
}
function waiting() {
  fill($("out"), h("p.soft", { role: "status" }, `Asking the ${live() ? "session" : "release"} …`), h("div.wait", { style: { height: "44px", margin: "14px 0 18px", width: "55%" } }), h("div.wait"),
    h("p.small.soft", { style: { marginTop: "18px" } }, `Questions over many columns take up to a few seconds.${live() ? " If you leave now, the answer is kept, and asking again is free." : ""}`));
}

// ---- the answer ------------------------------------------------------------------------------------------------

const RESTS = { measured: "The table’s own counts plus noise. The interval is that noise’s own.", guessed: "A guess that was compared with the table and found close enough. The interval is what the comparison proves.", simulated: "Computed from what was published. The release was made again on tables drawn from itself, and the interval is how far such answers were off there.", unguaranteed: "Computed from what was published. Nothing says how far it is off." };
function say(answer) {
  const a = cut(answer, here.about.rows), unit = a.scale === 100 && answer.count === null ? "percent" : word(Math.round(a.lo === null || !a.noisy ? a.c : a.hi) !== 1);
  if (a.lo === null) return { a, unit, sentence: `Do not quote this number. ${answer.why || "It has no interval."}`, head: ["maybe", n(a.c)] };
  if (!a.noisy) return { a, unit, sentence: `The true number is between ${n(a.lo)} and ${n(a.hi)}, ${often(answer.confidence)}.`, head: ["about", n(a.c)] };
  const sentence = answer.basis === "guessed" ? `The guess is ${n(a.c)}. What the comparison proves is that the true number is between ${n(a.lo)} and ${n(a.hi)}, ${often(answer.confidence)}. The guess may be far better than that.`
    : `Too few to tell from noise. The published number is ${n(a.c)}; the true one is between ${n(a.lo)} and ${n(a.hi)}, ${often(answer.confidence)}.`;
  return { a, unit, sentence, head: ["at most", n(a.hi)] };
}
function show(answer) {
  const out = $("out");
  if (!answer) {
    fill(out, h("h3", {}, "No question yet"), h("p.soft", { style: { margin: "8px 0 18px" } }, `Pick values, or begin with one of these.${here.about.measured_order ? ` Up to ${count(here.about.measured_order, "column", "columns")} at a time come with an interval.` : ""}`),
      h("div.chips", {}, examples().map(([text, where]) => h("button.chip", { type: "button", onclick: () => { how(true); $("q").value = where; live() ? quote({ where }) : ask(); } }, text))));
    return;
  }
  if (answer.error === "token") return expired();
  if (answer.error) {
    fill(out, h("p.tag.warn", {}, "Not answered"), h("h3", { style: { margin: "14px 0 8px" } }, answer.title), h("p", {}, answer.text),
      answer.repairs.length ? h("div.btns", {}, answer.repairs.map((one) => h("button.btn", { type: "button", onclick: () => { how(true); $("q").value = one.where; live() ? quote({ where: one.where }) : ask(); } }, `${one.label}: ${one.where}`))) : null,
      h("div.rests", {}, h("span.tag.plain", {}, "Cost"), h("span", {}, ["budget", "busy", "away"].includes(answer.error) ? "Nothing." : DROP)));
    $("said").textContent = `Not answered. ${answer.title}. ${answer.text}`;
    return;
  }
  const { a, unit, sentence, head } = say(answer);
  const shares = a.lo === null ? "no interval" : a.noisy ? `up to ${pct(Math.min(1, answer.high))}` : `${pct(a.c / a.scale)}, between ${pct(Math.max(0, answer.low))} and ${pct(Math.min(1, answer.high))}`;
  const cost = !live() ? "Nothing. This release is paid for; ask as much as you like." : answer.repeated ? "Nothing: it was asked before." : answer.cost ? `${share(answer.cost)} of the budget. Asking it again is free.` : "Nothing. Asking it again is free, too.";
  const columns = answer.columns || [];
  fill(out, h("p.big", {}, h("small", {}, `${head[0]} `), head[1], h("small", {}, ` ${unit}`)), h("p.of", {}, `${of()}${of() ? " · " : ""}${shares}`), a.lo === null ? unknown(a.scale) : interval(a, answer.basis === "guessed"), h("p.sentence", {}, sentence),
    answer.notes.map((text) => h("p.small.soft", {}, `Note: ${text}.`)),
    a.lo === null && !live() && columns.length > 1 ? h("div.btns", {}, columns.filter((name) => picks[name]).map((name) => h("button.btn", { type: "button", onclick: () => { delete picks[name]; facetStates(); question(); } }, `Leave out ${name}`))) : null,
    h("div.rests", {}, h(`span.tag${answer.basis === "unguaranteed" ? ".warn" : ""}`, {}, answer.basis[0].toUpperCase() + answer.basis.slice(1)), h("span", {}, RESTS[answer.basis]), h("span.tag.plain", {}, "Cost"), h("span", {}, cost)),
    h("div.btns", {}, copier("Copy sentence", () => `${head.join(" ")} ${unit} ${of()} (${answer.where}). ${sentence}`, "btn"), copier("JSON", () => JSON.stringify(answer)), copier("Python", () => `cs.connect("${location.origin}${base()}"${live() ? ", token=…" : ""}).ask(${JSON.stringify(answer.where)})`), copier("Link", () => `${location.origin}/#${here.kind}/${here.name}?where=${encodeURIComponent(answer.where)}`)));
  $("said").textContent = `${head.join(" ")} ${unit} ${of()}. ${sentence}`;
}
function expired() {
  token = null;
  const title = "Your token is not known any more", text = "Its owner has taken it away, or replaced it. Nothing was spent. Ask the owner for another one.";
  fill($("out"), h("p.tag.warn", {}, "Not answered"), h("h3", { style: { margin: "14px 0 8px" } }, title), h("p", {}, text), h("div.btns", {}, h("button.btn.main", { type: "button", onclick: () => { refocus = true; if (location.hash) location.hash = ""; else route(); } }, "Use another token")));
  $("said").textContent = `Not answered. ${title}. ${text}`;
}
function copier(name, text, kind = "btn.quiet") {
  const button = h(`button.${kind}`, { type: "button", onclick: async () => {
    try { await navigator.clipboard.writeText(text()); button.textContent = "Copied"; } catch { button.textContent = "Not allowed to copy"; }
    setTimeout(() => { button.textContent = name; }, 1500);
  } }, name);
  return button;
}
function history() {
  const list = live() ? here.about.history : past;
  $("histnote").textContent = live() ? "The same question gets the same answer, in whatever words, for nothing. What was asked is kept in the session’s file." : "Kept in this tab only, and gone when you close it.";
  if (!list.length) return fill($("hist"), h("p.soft", {}, "Nothing asked yet."));
  const cuts = list.map((one) => cut(one, here.about.rows)), max = nice(Math.max(...cuts.map((a) => a.hi ?? a.c), 1));
  fill($("hist"), h("table.hist", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Question"), h("th.num", { scope: "col" }, "Answer"), h("th.num", { scope: "col" }, "Between"), h("th", { scope: "col", style: { width: "28%" } }, `0 to ${n(max)}`), h("th", { scope: "col" }, "Rests on"), live() ? h("th.num", { scope: "col" }, "Cost") : null)),
    h("tbody", {}, list.map((one, i) => { const a = cuts[i], { head } = say(one);
      return h("tr", {}, h("td", {}, h("code", {}, one.where)), h("td.num", { "data-l": "Answer" }, h("b", {}, head[0] === "about" ? head[1] : head.join(" "))), h("td.num", { "data-l": "Between" }, a.lo === null ? "no interval" : `${n(a.lo)} and ${n(a.hi)}`), h("td", {}, whisker(a, max)), h("td", { "data-l": "Rests on" }, one.basis), live() ? h("td.num", { "data-l": "Cost" }, one.cost ? share(one.cost) : "free") : null); }))));
}

// ---- tables, rows, the exact promise ---------------------------------------------------------------------------

function why(text) { return h("p.soft.measure", {}, text); }
function tables() {
  const place = $("tables"), columns = here.about.columns.filter((one) => one.codes);
  place.hidden = false;
  if (live() || !here.about.has_tables) return fill(place, h("div.head", {}, h("h2", {}, "Tables")), why(live() ? "A session answers one question at a time. What it has learned can be taken along as a release, which has tables." : "This release is of functions of the table, and holds no counts to print."), live() ? h("div.btns", {}, h("button.btn", { type: "button", onclick: () => fetchFile("/release", `${here.name}.conspectus`) }, "Download what it has learned")) : null);
  const options = (chosen) => columns.map((one) => h("option", { value: one.name, selected: one.name === chosen }, one.name));
  const first = h("select", { onchange: draw }, options(columns[0].name)), second = h("select", { onchange: draw }, h("option", { value: "" }, "nothing else"), options(null));
  if (columns.length > 1) second.value = columns[columns.length > 4 ? 4 : 1].name;
  const views = ["Bars", "Table"].map((name, i) => h("button", { type: "button", "aria-pressed": String(i === 0), onclick: (event) => { views.forEach((one) => one.setAttribute("aria-pressed", one === event.target)); draw(); } }, name));
  const chart = h("div", { id: "chart" }), note = h("p.soft.measure");
  const by = () => (second.value && second.value !== first.value ? [second.value, first.value] : [first.value]);
  const address = (names) => `/table?${names.map((name) => `by=${encodeURIComponent(name)}`).join("&")}`;
  let newest = 0;
  async function draw() {
    const mine = ++newest, names = by();
    chart.style.opacity = 0.5;
    let made;
    try { made = await call(base() + address(names)); } catch (refused) { made = null; if (mine === newest) fill(chart, h("p.box.warn", { role: "status" }, h("b", {}, refused.title), " ", refused.text)); }
    if (mine !== newest) return;
    chart.style.opacity = 1;
    if (!made) return;
    const cells = made.cells, inner = made.labels[made.labels.length - 1].length, max = Math.max(...cells.map((cell) => cell.high ?? cell.count), 1), kinds = names.map((name) => columns.find((one) => one.name === name));
    note.textContent = `Each table adds up to the number of ${word()}. Each interval holds for its own cell, ${often(made.confidence)}${cells.length > 10 ? `, so of these ${n(cells.length)} cells expect about ${n(0.05 * cells.length)} to miss` : ""}.`;
    const range = (cell) => (cell.low === null ? "no interval" : `${n(cell.low)}–${n(cell.high)}`);
    const panels = names.length > 1 ? made.labels[0].map((text, i) => [`${names[0]}: ${label(kinds[0], text)}`, cells.slice(i * inner, (i + 1) * inner)]) : [[names[0], cells]];
    const last = kinds[kinds.length - 1];
    if (views[0].getAttribute("aria-pressed") === "true") fill(chart, h("div.panels", {}, panels.map(([title, part]) => h("div.panel", {}, h("h3", {}, h("span", {}, title), h("span.soft", { style: { fontWeight: 400 } }, "count, between")), h("div", { role: "list" }, part.map((cell, i) => h(`div.row${cell.too_noisy ? ".isnoise" : ""}`, { role: "listitem" }, h("span", {}, label(last, made.labels[made.labels.length - 1][i])), bar(cell, max), h("span.num", {}, cell.too_noisy ? "noise" : n(cell.count)), h("span.range", {}, range(cell)))))))));
    else fill(chart, h("div.scroll", { tabindex: 0, role: "region", "aria-label": "Table of counts" }, h("table", {}, h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name)), h("th.num", { scope: "col" }, "count"), h("th.num", { scope: "col" }, "between"), h("th", { scope: "col" }, "remark"))), h("tbody", {}, cells.map((cell) => h("tr", {}, cell.codes.map((code, i) => h("td", {}, label(kinds[i], made.labels[i][code]))), h("td.num", {}, cell.too_noisy ? h("i.soft", {}, n(cell.count)) : h("b", {}, n(cell.count))), h("td.num", {}, range(cell)), h("td", {}, cell.too_noisy ? "mostly noise" : "")))))));
  }
  fill(place, h("div.head", {}, h("h2", {}, "Tables")), note, h("div.controls", { style: { marginTop: "16px" } }, h("label.field", {}, `Count ${word()} by`, first), h("label.field", {}, "and by", second), h("button.btn", { type: "button", onclick: () => fetchFile(`${address(by())}&as=csv`, `${here.name}-${by().join("-")}.csv`) }, "Download CSV"), h("div.seg", { role: "group", "aria-label": "Show as" }, views)),
    h("div.legend", {}, h("span", {}, h("span", { style: { width: "80px" } }, bar({ count: 70, low: 60, high: 90, too_noisy: false }, 100)), "published count (tick), and the interval it fades over"), h("span", {}, h("span", { style: { width: "48px" } }, bar({ count: 20, low: 0, high: 90, too_noisy: true }, 100)), "hatched: mostly noise, so only the interval is shown")), chart);
  draw();
}
async function fetchFile(path, name) {
  try { save(await call(base() + path, undefined, true), name); } catch (refused) { show(refused); $("answer").scrollIntoView(); }
}
async function rows() {
  const place = $("rows");
  place.hidden = false;
  if (!here.about.has_rows) return fill(place, h("div.head", {}, h("h2", {}, "Synthetic rows")), why(live() ? "Rows come from a release: take along what the session has learned." : "This release holds noisy answers and no rows to draw. A release by projection, mwem, boosting or dual-query has some."));
  const number = h("input", { type: "range", min: 2, max: 5.3, step: 0.1, value: 3, id: "nrows", oninput: tell }), shown = h("output", { for: "nrows" });
  const chosen = () => { const v = 10 ** Number(number.value); return Number(v.toPrecision(v > 999 ? 2 : 1)); };
  function tell() { shown.textContent = n(chosen()); number.setAttribute("aria-valuetext", count(chosen(), "row", "rows")); }
  const preview = h("div.scroll", { tabindex: 0, role: "region", "aria-label": "Five synthetic rows" });
  fill(place, h("div.head", {}, h("h2", {}, "Synthetic rows")), h("p.soft.measure", {}, "Rows that fit the published answers. They are nobody’s records. Use them to try out code; take numbers from ", h("a", { href: "#ask" }, "a question"), ", because a count of synthetic rows has no interval."),
    h("div.rows", { style: { marginTop: "24px" } }, preview, h("div.card", {}, h("label.field", { for: "nrows" }, "How many rows"), h("p", { style: { fontSize: "24px", fontWeight: 600 } }, shown), number, h("div.btns", {}, h("button.btn.main", { type: "button", id: "csv", onclick: () => fetchFile(`/rows?n=${chosen()}&as=csv`, `${here.name}-synthetic.csv`) }, "CSV"), h("button.btn", { type: "button", onclick: () => fetchFile(`/rows?n=${chosen()}&as=parquet`, `${here.name}-synthetic.parquet`) }, "Parquet")))));
  tell();
  try {
    const made = await call(`${base()}/rows?n=5`);
    fill(preview, h("table", {}, h("thead", {}, h("tr", {}, made.columns.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, made.rows.map((line) => h("tr", {}, line.map((value) => h("td.small", {}, value === null ? h("span.soft", {}, "missing") : value.length > 12 && Number.isFinite(Number(value)) ? digits(Number(value), 6) : value)))))));
  } catch (refused) { fill(preview, h("p.box.warn", {}, refused.text)); }
}
function guarantee() {
  const a = here.about, place = $("guarantee");
  place.hidden = false;
  fill(place, h("div.head", {}, h("h2", {}, "The guarantee, word for word")), h("p.measure", {}, h("code", {}, a.guarantee.text)),
    h("h3", { style: { margin: "24px 0 8px" } }, "What this does not promise"), h("ul.measure", {}, h("li", {}, "That nothing can be learned about groups: smoking may turn out to cause illness, and then smokers are known to be at risk, in the table or not."), h("li", {}, "That several releases of one table add nothing: each has its own privacy loss, and they add up. The owner’s ledger counts them."), h("li", {}, "That each number is right. The noise is real; the intervals say how large it is, and miss now and then, as often as they say.")),
    live() ? null : h("div.btns", {}, h("a.btn", { href: `${base()}/report` }, "Report for an ethics board"), h("button.btn", { type: "button", onclick: () => fetchFile("/file", `${here.name}.conspectus`) }, "Download the release")));
}
start();
