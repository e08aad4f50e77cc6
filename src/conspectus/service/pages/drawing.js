"use strict";
// What both pages draw with. Text goes in as text: names and values are the owner's and may hold anything.

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

function h(tag, props = {}, ...children) {
  const [name, ...kinds] = tag.split(".");
  const made = document.createElement(name);
  if (kinds.length) made.className = kinds.join(" ");
  put(made, props, children);
  return made;
}
function s(tag, props = {}, ...children) {
  const [name, ...kinds] = tag.split(".");
  const made = document.createElementNS(SVG, name);
  if (kinds.length) made.setAttribute("class", kinds.join(" "));
  put(made, props, children);
  return made;
}
function put(made, props, children) {
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "style") Object.assign(made.style, value);
    else if (key in { value: 1, checked: 1, disabled: 1, hidden: 1, selected: 1 }) made[key] = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(9)) if (child !== null && child !== undefined && child !== false) made.append(child);
}
function fill(place, ...children) { place.replaceChildren(...children.flat(9).filter((one) => one !== null && one !== undefined && one !== false)); }

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const n = (x) => whole.format(Math.round(x));
const count = (number, one, many) => `${n(number)} ${number === 1 ? one : many}`;
function digits(x, d = 2) { return Number(x.toPrecision(d)).toLocaleString("en-US", { maximumFractionDigits: 12 }); }
const pct = (x) => `${x >= 0.9995 && x < 1 ? "over 99.9" : digits(100 * x, x > 0.1 ? 3 : 2)} %`;
// A bound is never printed as better than it is: what is at most is rounded up, what is at least is rounded down.
function outward(x, d, up) { if (x === 0) return 0; const step = 10 ** (Math.floor(Math.log10(Math.abs(x))) - d + 1), k = x / step; return Number(((up ? Math.ceil(k - 1e-9) : Math.floor(k + 1e-9)) * step).toPrecision(12)); }
const atMost = (x) => (x >= 0.9995 && x < 1 ? "over 99.9 %" : `${outward(100 * x, 3, true).toLocaleString("en-US", { maximumFractionDigits: 12 })} %`);
const atLeast = (x) => `${outward(100 * x, x >= 0.1 ? 3 : 2, false).toLocaleString("en-US", { maximumFractionDigits: 12 })} %`;
const rarity = (delta) => (delta > 0 ? `1 in ${n(Math.floor(1 / delta * (1 + 1e-12)))}` : "none");
function nice(x) { const p = 10 ** Math.floor(Math.log10(x)); return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((k) => k * p).find((k) => k >= x) ?? x; }
const at = (x, max) => `${(100 * Math.min(Math.max(x / max, 0), 1)).toFixed(2)}%`;

function line(kind, x1, x2, y1, y2) { return s(`line.${kind}`, { x1, x2, y1, y2 }); }

// What may be printed of an answer: cut to what is possible, the ends rounded outward, and whether it is mostly noise.
function cut(answer, rows) {
  const scale = answer.count === null || rows === null ? 100 : rows;
  const c = Math.min(Math.max(answer.fraction, 0), 1) * scale;
  if (answer.low === null) return { c, lo: null, hi: null, scale, noisy: true };
  const lo = Math.max(0, Math.floor(answer.low * scale + 1e-6)), hi = Math.min(scale, Math.ceil(answer.high * scale - 1e-6));
  return { c, lo, hi, scale, noisy: lo <= 0 || (hi - lo) / 2 > c / 2 };
}

function interval(a, dashed) {
  const max = nice(Math.max(a.hi * 1.18, 1));
  const narrow = (a.hi - a.lo) / max < 0.24;
  const whisk = dashed ? "whisk.dash" : "whisk";
  return s("svg.draw", { width: "100%", height: 100, role: "img", "aria-label": `On a line from 0 to ${n(max)}: interval from ${n(a.lo)} to ${n(a.hi)}, published number ${n(a.c)}` },
    line("basel", "0", "100%", 66, 66),
    [0, 0.25, 0.5, 0.75, 1].map((g) => [line("basel", `${100 * g}%`, `${100 * g}%`, 66, 71), s("text", { x: `${100 * g}%`, y: 88, "text-anchor": g === 0 ? "start" : g === 1 ? "end" : "middle" }, digits(max * g, 4))]),
    s(a.noisy ? "rect.noise" : "rect.bandf", { x: at(a.lo, max), y: 34, width: at(a.hi - a.lo, max), height: 26 }),
    line(whisk, at(a.lo, max), at(a.lo, max), 28, 66), line(whisk, at(a.hi, max), at(a.hi, max), 28, 66), line("est", at(a.c, max), at(a.c, max), 28, 66),
    s("text.end", { x: at(a.lo, max), y: 20, "text-anchor": a.lo / max < 0.08 ? "start" : narrow ? "end" : "middle", dx: narrow && a.lo / max >= 0.08 ? 4 : 0 }, n(a.lo)),
    s("text.end", { x: at(a.hi, max), y: 20, "text-anchor": narrow ? "start" : "middle", dx: narrow ? (a.lo / max < 0.08 ? 24 : -4) : 0 }, n(a.hi)));
}
function unknown(scale) {
  return s("svg.draw", { width: "100%", height: 64, role: "img", "aria-label": "No interval: the accuracy of this number is not known" },
    s("rect.noise", { x: 0, y: 12, width: "100%", height: 26 }), s("text", { x: 0, y: 58 }, "0"), s("text", { x: "100%", y: 58, "text-anchor": "end" }, n(scale)));
}
// A bar is solid up to the low end and fades to the high end; the tick is the published number.
function bar(cell, max, height = 16) {
  const y = 2, low = cell.low ?? 0, high = cell.high ?? cell.count;
  const parts = cell.low === null ? [s("rect.noise", { x: 0, y, width: "100%", height: height - 4 })]
    : cell.too_noisy ? [s("rect.noise", { x: at(low, max), y, width: at(high - low, max), height: height - 4 }), line("whisk", at(low, max), at(low, max), 0, height), line("whisk", at(high, max), at(high, max), 0, height)]
    : [s("rect.sure", { x: 0, y, width: at(low, max), height: height - 4 }), s("rect.bandf", { x: at(low, max), y, width: at(high - low, max), height: height - 4 }), line("halo", at(cell.count, max), at(cell.count, max), 0, height), line("est", at(cell.count, max), at(cell.count, max), 0, height), line("whisk", at(high, max), at(high, max), 3, height - 3), line("halo", at(low, max), at(low, max), 3, height - 3), line("whisk", at(low, max), at(low, max), 3, height - 3)];
  return s("svg", { width: "100%", height, "aria-hidden": "true" }, line("basel", "0", "0", 0, height), parts);
}
function whisker(a, max) {
  if (a.lo === null) return s("svg", { width: "100%", height: 16, "aria-hidden": "true" }, s("rect.noise", { x: 0, y: 2, width: "100%", height: 12 }));
  return s("svg", { width: "100%", height: 16, "aria-hidden": "true" }, line("gridl", "0", "100%", 8, 8), s(a.noisy ? "rect.noise" : "rect.bandf", { x: at(a.lo, max), y: 3, width: at(a.hi - a.lo, max), height: 10 }),
    line("whisk", at(a.lo, max), at(a.lo, max), 2, 14), line("whisk", at(a.hi, max), at(a.hi, max), 2, 14), line("est", at(a.c, max), at(a.c, max), 1, 15));
}
function beliefs(list) {
  const label = list.map(([p, lo, hi]) => `from ${pct(p)} to between ${atLeast(lo)} and ${atMost(hi)}`).join("; ");
  return s("svg", { width: "100%", height: list.length * 30 + 24, role: "img", "aria-label": `How far a belief can move: ${label}` },
    [0, 25, 50, 75, 100].map((g) => [line("gridl", `${8 + 0.84 * g}%`, `${8 + 0.84 * g}%`, 0, list.length * 30), s("text", { x: `${8 + 0.84 * g}%`, y: list.length * 30 + 18, "text-anchor": "middle" }, `${g} %`)]),
    list.map(([p, lo, hi], i) => {
      const x = (v) => `${(8 + 84 * v).toFixed(2)}%`, y = 30 * i + 14;
      return [s("rect.bandf", { x: x(lo), y: y - 6, width: `${(84 * (hi - lo)).toFixed(2)}%`, height: 12 }), line("whisk", x(lo), x(lo), y - 8, y + 8), line("whisk", x(hi), x(hi), y - 8, y + 8), s("circle.dot", { cx: x(p), cy: y, r: 4 }),
        s("text", { x: x(lo), y: y + 4, dx: -5, "text-anchor": "end" }, String(outward(100 * lo, lo < 0.01 ? 1 : 2, false))), s("text", { x: x(hi), y: y + 4, dx: 5 }, String(outward(100 * hi, 2, true)))];
    }));
}
function patterns() {
  return s("svg", { width: 0, height: 0, "aria-hidden": "true", focusable: "false" }, s("defs", {},
    s("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, line("hatchl", 0, 0, 0, 6)),
    s("pattern", { id: "dots", width: 5, height: 5, patternUnits: "userSpaceOnUse" }, s("circle", { cx: 1.5, cy: 1.5, r: 1, style: { fill: "var(--raw)" } }))));
}
function tabs(list) {
  const all = [...list.querySelectorAll("[role=tab]")];
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const next = all[(all.indexOf(document.activeElement) + step + all.length) % all.length];
    next.focus(); next.click(); event.preventDefault();
  });
}
function save(blob, name) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link); link.click(); link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
