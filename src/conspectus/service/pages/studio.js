"use strict";
// The owner's studio: declare, choose, plan, release. The secret stands in the fragment of the address, which a browser
// sends nowhere, and goes with each request as a header.

const secret = location.hash.slice(1);
const KINDS = { categorical: "category", integer: "whole number", number: "number", boolean: "yes or no", date: "date" };
const EPSILONS = [0.05, 0.1, 0.2, 0.4, 0.7, 1, 1.5, 2.5, 4, 8];
const state = { draft: null, columns: [], unit: { kind: "row" }, nouns: ["", ""], name: "table", order: 3, own: "", sql: [], epsilon: 1, delta: 1e-6, plan: null, mechanism: null, job: null, problem: null };

async function call(path, body, raw) {
  const headers = { Authorization: `Bearer ${secret}` };
  const plain = body instanceof Blob || body === undefined;
  if (!plain) headers["Content-Type"] = "application/json";
  let response;
  try { response = await fetch(path, { method: body === undefined ? "GET" : "POST", headers, body: plain ? body : JSON.stringify(body) }); }
  catch { throw { title: "The studio does not answer", text: "It may have been stopped in its terminal." }; }
  if (!response.ok) throw (await response.json().catch(() => null)) || { title: "It failed", text: `The studio said ${response.status}.` };
  return raw ? response.blob() : response.json();
}
const complain = (place, refused) => fill(place, h("p.box.warn", { role: "alert" }, h("b", {}, refused.title), " ", refused.text));

// ---- 1 declare -------------------------------------------------------------------------------------------------

async function start() {
  document.body.append(patterns());
  if (!secret) return complain($("file"), { title: "This address is not whole.", text: "Open the address that the command printed, with everything after the #." });
  await load(() => call("/draft"));
}
async function load(get) {
  fill($("file"), h("p.soft", { role: "status" }, "Reading the rows …"), h("div.wait", { style: { width: "40%", marginTop: "8px" } }));
  let draft;
  try { draft = await get(); } catch (refused) { dropzone(); return $("file").append(h("p.box.warn", { role: "alert" }, h("b", {}, refused.title), " ", refused.text)); }
  Object.assign(state, { draft, columns: (draft.columns || []).map((one) => ({ ...one })), name: draft.name || "table", plan: null, mechanism: null, job: null, problem: null });
  dropzone(); declare();
  for (const id of ["s2", "s3", "s4"]) $(id).hidden = !draft.file;
  if (draft.file) { questions(); budget(); plan(); release(); book(); }
}
function dropzone() {
  const draft = state.draft, input = h("input", { type: "file", id: "chosen", accept: ".csv,.gz,.parquet", onchange: () => take(input.files[0]) });
  const take = (file) => { if (file) load(() => call(`/file?name=${encodeURIComponent(file.name)}`, file)); };
  const box = h("div.drop", { style: { marginTop: "24px" }, ondragover: (event) => event.preventDefault(), ondrop: (event) => { event.preventDefault(); take(event.dataTransfer.files[0]); } },
    draft && draft.file ? [h("p", {}, h("b", {}, draft.file)), h("p.small", {}, `${count(draft.rows, "row", "rows")}, ${count(draft.columns.length, "column", "columns")}. Exact: your own file, read here and sent nowhere.`), draft.odd_lines ? h("p.small", {}, `${count(draft.odd_lines, "line is", "lines are")} odd: conspectus schema check says how.`) : null] : [h("p", { style: { fontSize: "19px" } }, h("b", {}, "Drop a CSV or Parquet file")), h("p.small", {}, "It is read on this computer and sent nowhere.")],
    h("p", { style: { marginTop: "12px" } }, h("label", { for: "chosen" }, draft && draft.file ? "Choose another file: " : "Choose a file: "), input));
  fill($("file"), box);
}
const confirmed = () => state.columns.filter((one) => one.source === "owner").length;
function declared() {
  const columns = state.columns.map(({ preview, risks, source, ...column }) => column);
  const nouns = state.nouns.map((one) => one.trim());
  return { name: state.name, null_values: state.draft.null_values, unit: state.unit, draft: confirmed() < state.columns.length, columns, ...(nouns.every(Boolean) ? { nouns } : {}) };
}
function declare() {
  if (!state.draft.file) return fill($("declare"));
  const radio = (kind, title, text) => h("label.choice", {}, h("input", { type: "radio", name: "unit", value: kind, checked: state.unit.kind === kind, onchange: () => { state.unit = kind === "row" ? { kind } : { kind, column: "", max_rows: 1 }; unitBox(); changed(); } }), " ", h("b", {}, title), h("span", {}, text));
  const box = h("div.inline", { id: "unitbox", style: { marginTop: "12px" } });
  fill($("declare"), h("fieldset.choices", { style: { marginTop: "24px" } }, h("legend", { style: { fontWeight: 600, marginBottom: "8px" } }, "Who is protected?"), radio("row", "One row is one person", "Each person has one line in the file."), radio("id", "A person may have several rows", "Name the column with their id, and how many rows of each are used.")), box,
    h("div.inline", { style: { marginTop: "12px" } }, ["readers call one row", "and many of them"].map((text, many) => h("label", {}, `${text} `, h("input", { type: "text", maxlength: 40, placeholder: many ? "rows" : "row", value: state.nouns[many], oninput: (event) => { state.nouns[many] = event.target.value; changed(); } })))),
    h("div.head", { style: { margin: "32px 0 12px" } }, h("h2", {}, "Columns"), h("span", { id: "standing", role: "status" })), h("p.box.raw", { id: "draftnote" }, h("b", {}, "This is a draft, and not private. "), "Every value and bound below was read off the rows. Replace what you would not know without looking, then confirm the column."),
    h("div", { id: "columns", style: { marginTop: "16px" } }, state.columns.map(card)), h("p.box.warn", { id: "wrong", role: "alert", hidden: true }),
    h("div.btns", {}, h("button.btn", { type: "button", id: "savetext", onclick: async () => save(await call("/text", declared(), true), `${state.name}.toml`) }, "Save the schema"), h("a.btn.main", { href: "#s2" }, "Choose questions")));
  unitBox(); standing();
}
function unitBox() {
  const box = $("unitbox");
  if (state.unit.kind === "row") return fill(box);
  fill(box, h("label", {}, "id column ", h("input", { type: "text", value: state.unit.column, oninput: (event) => { state.unit.column = event.target.value; changed(); } })), h("label", {}, "at most ", h("input", { type: "number", min: 1, value: state.unit.max_rows, oninput: (event) => { state.unit.max_rows = Number(event.target.value) || 1; changed(); } }), " rows of each"));
}
function standing() {
  const done = confirmed(), all = state.columns.length;
  fill($("standing"), h(`span.tag${done < all ? ".raw" : ""}`, {}, done < all ? `Not private: ${all - done} of ${all} columns not confirmed` : `All ${all} columns declared`));
  $("draftnote").hidden = done === all;
}
function card(column) {
  const own = column.source === "owner", place = h(`article.card.column.${own ? "ours" : "read"}`, { "aria-label": `Column ${column.name}`, "data-name": column.name });
  const edit = (change) => { change(); column.source = "owner"; changed(); mark(); };
  const text = (key, wide, parse = (x) => x) => h(`input${wide ? ".wide" : ""}`, { type: "text", value: Array.isArray(column[key]) ? column[key].join(", ") : column[key] ?? "", "aria-label": `${key} of ${column.name}`, onchange: (event) => edit(() => { column[key] = parse(event.target.value); }) });
  const number = (x) => (Number.isFinite(Number(x)) ? Number(x) : x), whole = (x) => (x.trim() === "" ? undefined : number(x)), list = (x) => x.split(",").map((one) => one.trim()).filter(Boolean);
  const check = (key, label) => h("label.inline.small", {}, h("input", { type: "checkbox", checked: Boolean(column[key]), onchange: (event) => edit(() => { column[key] = event.target.checked; }) }), label);
  const fields = { categorical: () => h("label.field", {}, "values, separated by commas", text("values", true, list)), integer: () => h("div.inline", {}, "from", text("min", false, whole), "to", text("max", false, whole), "in bins of", text("width", false, whole)), number: () => h("label.field", {}, "bins end at", text("edges", true, (x) => list(x).map(number))), boolean: () => h("p.small.soft", {}, "Two values: no, yes."), date: () => h("div.inline", {}, "from", text("min"), "to", text("max"), "by", text("width")) };
  const most = Math.max(...column.preview.counts, 1), step = 100 / column.preview.counts.length;
  const side = h("div"), kind = h("select", { "aria-label": `Kind of ${column.name}`, onchange: (event) => edit(() => { column.type = event.target.value; for (const key of ["values", "min", "max", "width", "edges", "other"]) delete column[key]; render(); }) }, Object.entries(KINDS).map(([value, label]) => h("option", { value, selected: value === column.type }, label)));
  const middle = h("div");
  function render() { fill(middle, (fields[column.type] || (() => h("p.small.soft", {}, `Declared as ${column.type}.`)))(), h("div.inline", { style: { marginTop: "8px" } }, column.type === "categorical" ? check("other", "everything else as “other”") : null, check("missing", "may be missing")), h("p.note", { hidden: column.source === "owner" }, (column.risks || []).map((one) => one.text).join(" "))); }
  function mark() {
    const mine = column.source === "owner";
    place.className = `card column ${mine ? "ours" : "read"}`;
    place.querySelectorAll(".note").forEach((one) => { one.hidden = mine; });
    fill(side, h(`span.tag${mine ? "" : ".raw"}`, {}, mine ? "✓ Declared by you" : "Read off the rows"), h("div.btns", {}, h("button.btn", { type: "button", onclick: () => { column.source = mine ? "rows" : "owner"; mark(); changed(); side.querySelector("button").focus(); } }, mine ? "Edit again" : "Confirm")));
  }
  place.append(h("div", {}, h("h3", {}, column.name), kind), middle, h("figure", { style: { margin: 0 } }, h("figcaption.note", {}, "Your data, for you only"), s("svg", { width: "100%", height: 72, role: "img", "aria-label": `Shape of ${column.name} in your own data` }, column.preview.counts.map((x, i) => s("rect.rawbar", { x: `${(i * step).toFixed(2)}%`, width: `${(step * 0.92).toFixed(2)}%`, y: 52 - 50 * x / most, height: Math.max(1, 50 * x / most) })), s("text", { x: 0, y: 68 }, column.preview.labels[0].slice(0, 12)), s("text", { x: "100%", y: 68, "text-anchor": "end" }, column.preview.labels[1].slice(0, 12)))), side);
  render(); mark();
  return place;
}
let later = null;
function changed() { standing(); release(); clearTimeout(later); later = setTimeout(recheck, 300); }
async function recheck() {
  const found = await call("/schema", declared()).catch((refused) => ({ ok: false, text: refused.text }));
  state.problem = found.ok ? null : found.text;
  $("wrong").hidden = found.ok; $("wrong").textContent = found.ok ? "" : found.text;
  if (found.ok) plan();
  release();
}

// ---- 2 questions -----------------------------------------------------------------------------------------------

function questions() {
  const choice = (order, title, text) => h("label.choice", {}, h("input", { type: "radio", name: "order", value: order, checked: state.order === order, onchange: () => { state.order = order; plan(); } }), " ", h("b", {}, title), h("span", {}, text));
  state.order = Math.min(state.order, state.columns.length);
  fill($("questions"), h("fieldset.choices", { style: { marginTop: "24px" } }, h("legend.unseen", {}, "Tables to publish"), choice(1, "Each column alone", "The most exact counts, nothing about how columns go together."), state.columns.length > 1 ? choice(2, "Every two columns", "Tables such as one column by another.") : null, state.columns.length > 2 ? choice(3, "Every three columns", "Each pair of columns within each value of a third.") : null), h("p.note", { id: "howmany", style: { marginTop: "8px" } }),
    h("label.field", { style: { marginTop: "24px" }, for: "own" }, "Questions that must be answerable, one a line"), h("textarea", { id: "own", spellcheck: "false", value: state.own, oninput: (event) => { state.own = event.target.value; clearTimeout(later); later = setTimeout(plan, 500); } }), h("ul", { id: "cover", style: { listStyle: "none", padding: 0 } }));
}
function covered() {
  const list = state.plan.covered;
  fill($("cover"), list.map((one) => h("li", { style: { marginTop: "8px" } }, h("b", { "aria-hidden": "true" }, one.interval ? "✓ " : "○ "), h("code", {}, one.where), h("br"), h("span.small.soft", {}, one.text), one.interval || /column|value|predicate|bin/i.test(one.text.replace("Names", "")) && !one.text.startsWith("Names") ? null : h("button.btn.quiet", { type: "button", onclick: () => { state.sql = [...new Set([...state.sql, one.where])]; plan(); } }, "Add it as a question of its own"))));
}

// ---- 3 budget --------------------------------------------------------------------------------------------------

const low = Math.log(0.05), high = Math.log(8);
function budget() {
  const slider = h("input", { type: "range", id: "eps", min: 0, max: 1, step: 0.005, value: (Math.log(state.epsilon) - low) / (high - low), oninput: () => { state.epsilon = Number(Math.exp(low + (high - low) * slider.value).toPrecision(2)); typed.value = state.epsilon; meaning(); } });
  const typed = h("input", { type: "number", id: "epsout", min: 0.001, max: 100, step: "any", value: state.epsilon, oninput: () => { const x = Number(typed.value); if (x > 0) { state.epsilon = x; slider.value = (Math.log(x) - low) / (high - low); meaning(); } } });
  fill($("budget"), h("div.card.two", { style: { marginTop: "24px" } }, h("div", {}, h("label.field", { for: "epsout" }, "Privacy loss ε"), typed, h("div", { style: { marginTop: "12px" } }, h("label.unseen", { for: "eps" }, "Privacy loss ε, by a slider"), slider), h("div.head.note", { style: { margin: 0 } }, h("span", {}, "more private, less exact"), h("span", {}, "less private, more exact")),
    h("p", { style: { marginTop: "16px" } }, h("label", { for: "delta" }, "Slack δ "), h("select", { id: "delta", onchange: (event) => { state.delta = Number(event.target.value); plan(); } }, [[1e-6, "1 in 1,000,000"], [1e-9, "1 in 1,000,000,000"], [0, "none (δ = 0)"]].map(([value, label]) => h("option", { value, selected: value === state.delta }, label))), h("span.note", {}, " how often ε may not hold")), h("div", { id: "seen", style: { marginTop: "24px" } })), h("div", {}, h("h3", {}, "What an attacker could learn about one person"), h("p", { id: "learn", style: { margin: "8px 0" } }), h("div", { id: "beliefs" }))));
  meaning();
}
function meaning() {
  const e = state.epsilon, o = Math.exp(e), up = (p) => (p * o) / (1 - p + p * o), down = (p) => p / (p + (1 - p) * o);
  fill($("learn"), "Someone thinks a fact about a person is as likely as not. That person’s row can move them to ", h("b", {}, atMost(up(0.5))), " at most, or to ", h("b", {}, atLeast(down(0.5))), " at least, whatever else they know.", e > 3 ? h("b", {}, " That is close to certainty.") : null);
  fill($("beliefs"), beliefs([0.01, 0.1, 0.5, 0.9].map((p) => [p, down(p), up(p)])));
  $("eps").setAttribute("aria-valuetext", `ε ${e}: a belief of 50 percent can move to ${Math.round(100 * up(0.5))} percent`);
  if (state.plan) { plans(); seen(); }
  release();
}
function at_(list) {
  const x = state.plan.epsilons, e = Math.min(Math.max(state.epsilon, x[0]), x[x.length - 1]);
  let i = 0; while (i < x.length - 2 && x[i + 1] < e) i += 1;
  if (list[i] === null || list[i + 1] === null) return list[i] ?? list[i + 1];
  const t = Math.log(e / x[i]) / Math.log(x[i + 1] / x[i]);
  return Math.exp(Math.log(list[i]) + t * (Math.log(list[i + 1]) - Math.log(list[i])));
}
let planning = 0;
async function plan() {
  const mine = ++planning;
  const must = state.own.split("\n").map((one) => one.trim()).filter(Boolean).slice(0, 200);
  state.sql = state.sql.filter((one) => must.includes(one));
  $("plans").style.opacity = 0.6;
  let made;
  try { made = await call("/plan", { declared: declared(), workload: { marginals: state.order, sql: state.sql }, rows: Math.max(1, state.draft.rows), epsilons: EPSILONS, delta: state.delta, must }); }
  catch (refused) { if (mine === planning) { state.plan = null; complain($("plans"), refused); $("plans").style.opacity = 1; release(); } return; }
  if (mine !== planning) return;
  state.plan = made;
  $("howmany").textContent = `${count(made.questions, "question", "questions")} in ${count(made.tables, "part", "parts")}, exact: they follow from the schema.`;
  $("plans").style.opacity = 1;
  plans(); seen(); covered(); release();
}
function order() { return state.plan.claims.map((one) => [one, at_(one.expected_max)]).filter(([, error]) => error !== null).sort((x, y) => x[1] - y[1]); }
function chosen() { const all = order(); return (all.find(([one]) => one.mechanism === state.mechanism) || all[0] || [null])[0]; }
function seen() {
  const best = chosen();
  if (!best) return fill($("seen"), h("p.box.warn", {}, "No mechanism can serve these questions; the reasons stand below."));
  const width = best.expected_width.some((x) => x !== null) ? at_(best.expected_width) : null, shown = Math.max(10, Math.round(state.draft.rows / 50)), rows = state.draft.rows;
  const error = at_(best.expected_max), mean = at_(best.expected_mean);
  fill($("seen"), h("h3", {}, "What readers would see"), h("p", { style: { margin: "8px 0" } }, width === null ? `Answers by ${best.mechanism} are printed without intervals unless a certificate covers them.` : ["A count of ", n(shown), " would be published with an interval of about ", h("b", {}, `${n(Math.max(0, shown - width))} to ${n(shown + width)}`), "."], " Of all answers the worst is typically off by ", h("b", {}, n(error)), ` of ${n(rows)} rows, and the average one by `, h("b", {}, digits(mean, 2)), ". Expected, not promised."),
    width === null ? null : bar({ count: shown, low: Math.max(0, shown - width), high: shown + width, too_noisy: width > shown / 2 }, Math.max(3 * shown, shown + 1.1 * width), 26));
}
function effort(one) {
  const rows = one.rows ? "synthetic rows" : "no synthetic rows";
  if (!one.effort) return rows;
  const size = one.effort.file_bytes < 1e6 ? `${n(Math.max(1, one.effort.file_bytes / 1e3))} kB` : `${n(one.effort.file_bytes / 1e6)} MB`;
  return `about ${one.effort.seconds < 1 ? "a second" : `${n(one.effort.seconds)} s`}, a file of ${size}, ${rows}`;
}
function plans() {
  const ranked = order(), x0 = Math.log(EPSILONS[0]), x1 = Math.log(EPSILONS[EPSILONS.length - 1]), all = state.plan.claims.flatMap((one) => [...one.expected_max, ...one.bound]).filter((v) => v !== null && v > 0);
  const y0 = Math.log(Math.max(0.5, Math.min(...all, 1e9))), y1 = Math.log(Math.max(...all, 1)), H = 110;
  const X = (e) => 100 * (Math.log(e) - x0) / (x1 - x0), Y = (v) => 8 + (H - 24) * (1 - (Math.log(Math.max(v, 0.5)) - y0) / (y1 - y0 || 1));
  const path = (list) => { let d = ""; list.forEach((v, i) => { if (v !== null) d += `${d ? "L" : "M"}${X(EPSILONS[i]).toFixed(1)} ${Y(v).toFixed(1)}`; }); return d; };
  const best = chosen();
  fill($("plans"), h("h3", { style: { margin: "32px 0 8px" } }, "Largest error of each method"), h("p.soft.small.measure", {}, `How far the worst of ${n(state.plan.questions)} answers is typically off, in rows, as ε grows from ${EPSILONS[0]} to ${EPSILONS[EPSILONS.length - 1]}. Both scales are logarithmic. Solid: expected, on an ordinary table. Dashed: proved beforehand.`),
    h("div.plans", { style: { marginTop: "16px" } }, ranked.map(([one, error]) => { const proved = one.bound.some((v) => v !== null) ? at_(one.bound) : null;
      return h("button.plan", { type: "button", "aria-pressed": String(one === best), "data-mechanism": one.mechanism, onclick: () => { state.mechanism = one.mechanism; plans(); seen(); release(); document.querySelector(`[data-mechanism="${one.mechanism}"]`)?.focus(); } }, h("b", {}, one.mechanism, one === best ? h("span.tag", {}, "Picked") : null), h("p", {}, error >= state.draft.rows ? "does not help here" : ["about ", h("b", { style: { display: "inline" } }, n(error)), " rows"], h("br"), proved === null ? "nothing proved beforehand" : `proved: at most ${n(proved)}`, h("br"), effort(one)),
        s("svg", { width: "100%", height: H, viewBox: `0 0 100 ${H}`, preserveAspectRatio: "none", "aria-hidden": "true" }, ranked.filter(([other]) => other !== one).map(([other]) => s("path.curve.other", { d: path(other.expected_max), "vector-effect": "non-scaling-stroke" })), proved === null ? null : s("path.curve.dash", { d: path(one.bound), "vector-effect": "non-scaling-stroke" }), s("path.curve", { d: path(one.expected_max), "vector-effect": "non-scaling-stroke" }), s("line.whisk", { x1: X(Math.min(Math.max(state.epsilon, EPSILONS[0]), 8)), x2: X(Math.min(Math.max(state.epsilon, EPSILONS[0]), 8)), y1: 4, y2: H - 14, "vector-effect": "non-scaling-stroke" }))); }),
      state.plan.refusals.map((one) => h("div.plan.refusal", {}, h("b", {}, one.mechanism), h("p", {}, `Cannot serve: ${one.reason}.`)))));
}
function book() {
  const ledger = state.draft.ledger;
  if (!ledger) return fill($("ledger"), h("p.note", { style: { marginTop: "24px" } }, "No ledger was given. With conspectus studio --ledger FILE everything that is ever released about the table stays under one cap."));
  fill($("ledger"), h("div.card.gauge", { style: { marginTop: "24px" } }, h("div.head", { style: { margin: 0 } }, h("h3", {}, "Ledger of this table"), h("span", {}, h("b", {}, pct(Math.max(0, 1 - ledger.spent / ledger.cap))), h("span.soft", {}, ` left, exact: a release may ask for ε = ${digits(ledger.epsilon_remaining, 3)}`))), h("div.gbar", { role: "meter", "aria-label": "Ledger spent", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(100 * ledger.spent / ledger.cap) }, h("i.g1", { style: { width: `${100 * ledger.spent / ledger.cap}%` } })),
    ledger.steps.length ? [h("div.scroll", { tabindex: 0, role: "region", "aria-label": "The ledger over time" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Day"), h("th", { scope: "col" }, "Release or session"), h("th", { scope: "col", style: { width: "34%" } }, "0 to 100 % of the cap"), h("th.num", { scope: "col" }, "of the cap so far"))), h("tbody", {}, ledger.steps.map((one) => h("tr", {}, h("td.num", { style: { textAlign: "left" } }, one.when), h("td.small", {}, one.label), h("td", { "aria-hidden": "true" }, h("div.gbar", {}, h("i.g1", { style: { width: `${Math.min(100, 100 * one.share)}%` } }))), h("td.num", {}, pct(Math.min(1, one.share)))))))), ledger.rate ? h("p.small.soft", {}, `Spent so far: ${ledger.rate}.`) : null] : h("p.small.soft", {}, "Nothing was taken from it yet.")));
}

// ---- 4 release -------------------------------------------------------------------------------------------------

function release() {
  if (state.job) return;
  const need = [], all = state.columns.length - confirmed(), best = state.plan && chosen();
  if (all) need.push(["s1", `Confirm the ${count(all, "column that was", "columns that were")} read off the rows.`]);
  if (state.problem) need.push(["s1", state.problem]);
  if (!best) need.push(["s3", state.plan ? "No mechanism can serve these questions." : "Wait for the plan."]);
  const ledger = state.draft && state.draft.ledger;
  if (ledger && state.epsilon > ledger.epsilon_remaining) need.push(["s3", `Choose ε of ${digits(ledger.epsilon_remaining, 3)} or less: the ledger refuses more.`]);
  fill($("release"), h("div.card", { style: { marginTop: "24px" } }, best ? h("p", { style: { fontSize: "18px", maxWidth: "60ch" } }, "This spends ", h("b", {}, `ε = ${state.epsilon}`), " for good and writes a file that anyone may read. It answers ", h("b", {}, n(state.plan.questions)), ` questions about ${n(state.draft.rows)} rows with `, h("b", {}, best.mechanism), ".") : null,
    need.length ? h("div.box.warn", {}, h("b", {}, "Not yet."), h("ul", {}, need.map(([where, text]) => h("li", {}, text, " ", h("a", { href: `#${where}` }, `Step ${where[1]}`))))) : null,
    h("div.btns", {}, h("button.btn.main", { type: "button", id: "spend", disabled: need.length > 0, onclick: spend }, `Spend ε = ${state.epsilon} and release`), h("span.small.soft", { style: { alignSelf: "center" } }, "This cannot be undone."))));
}
async function spend() {
  $("spend").disabled = true;
  try { state.job = await call("/release", { declared: declared(), workload: { marginals: state.order, sql: state.sql }, epsilon: state.epsilon, delta: state.delta, mechanism: chosen().mechanism }); }
  catch (refused) { release(); return $("release").append(h("p.box.warn", { role: "alert" }, h("b", {}, refused.title), " ", refused.text)); }
  while (state.job.state === "running") {
    progress(state.job);
    await new Promise((go) => setTimeout(go, 250));
    try { state.job = await call("/job"); } catch { /* the next look may succeed */ }
  }
  if (state.job.state === "refused") { const refused = state.job; state.job = null; release(); $("release").append(h("p.box.warn", { role: "alert" }, h("b", {}, refused.title), " ", refused.text)); return; }
  done(state.job);
}
function progress(job) {
  fill($("release"), h("div.card", { style: { marginTop: "24px" } }, h("div.head", { style: { marginBottom: "10px" } }, h("b", { role: "status" }, job.label), h("span.soft.small", {}, `${job.stage} of ${job.of}`)), h("div.progress", { role: "progressbar", "aria-label": "Release", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(100 * job.done) }, h("i", { style: { width: `${100 * job.done}%` } })), h("ol", {}, job.stages.map((text, i) => h("li.small", {}, text, i + 1 < job.stage ? " ✓" : ""))), h("p.small.soft", {}, "If this stops now, budget may be lost, never privacy.")));
}
const size = (bytes) => (bytes < 2000 ? `${n(bytes)} bytes` : bytes < 2e6 ? `${n(bytes / 1000)} kB` : `${digits(bytes / 1e6, 3)} MB`);
function done(job) {
  const made = job.publish, max = job.table ? Math.max(...job.table.cells.map((cell) => cell.high ?? cell.count), 1) : 1;
  fill($("release"), h("div.card", { style: { marginTop: "24px" } }, h("p.tag", {}, "✓ Released"), h("h3", { style: { margin: "12px 0 6px", fontSize: "24px" }, tabindex: -1, id: "done" }, `${n(job.questions)} answers about ${job.rows_public ? "" : "about "}${n(job.rows)} rows`), h("p.soft", {}, h("code", {}, job.guarantee.text)),
    job.certificate ? h("p", { style: { marginTop: "12px" } }, "Certified: every published answer is within ", h("b", {}, n(Math.ceil(job.certificate.bound * job.rows))), ` rows of the truth, in ${digits(100 * (1 - job.certificate.failure), 3)} of 100 releases.`) : null,
    job.table ? h("div.panel", { style: { marginTop: "16px", maxWidth: "560px" } }, h("h3", {}, h("span", {}, job.table.column), h("span.soft", { style: { fontWeight: 400 } }, "count, between")), h("div", { role: "list" }, job.table.cells.map((cell) => h(`div.row${cell.too_noisy ? ".isnoise" : ""}`, { role: "listitem" }, h("span", {}, cell.label), bar(cell, max), h("span.num", {}, cell.too_noisy ? "noise" : n(cell.count)), h("span.range", {}, cell.low === null ? "no interval" : `${n(cell.low)}–${n(cell.high)}`))))) : null),
    h("div.two", { style: { marginTop: "24px" } }, h("div.card", {}, h("h3", {}, "Safe to publish"), h("p.small.soft", {}, `Written to ${job.folder}. conspectus serve gives it an address.`), h("ul", {}, made.map((one) => h("li", {}, h("button.btn.quiet", { type: "button", onclick: async () => save(await call(`/made/${encodeURIComponent(one.name)}`, undefined, true), one.name) }, one.name), h("span.small.soft", {}, size(one.bytes)))))), h("div.card.read", {}, h("h3", {}, "Keep to yourself"), h("ul", {}, job.keep.map((one) => h("li", {}, one.name, " ", h("span.small.soft", {}, size(one.bytes))))), h("p.small", {}, h("b", {}, "Releasing again"), " would spend the budget again. The same file can be asked for ever, for nothing."))));
  $("done").focus();
}
start();
