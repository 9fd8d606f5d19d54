// Figures of columns.

import { counted, drawing, element, share } from "./elements.js";

export function columnsElement(figures, overview) {
  const note = figures.sampled < figures.rows
    ? `Figures are of ${counted(figures.sampled, "row")}, in runs spread evenly over ${counted(figures.rows, "row")}.`
    : `Figures are of all ${counted(figures.rows, "row")}.`;
  const binary = figures.columns.some((column) => column.seen && column.seen < figures.sampled);
  const cards = figures.columns.map((column, place) => columnElement(column, overview.columns[place]));
  return [element("p", { class: "note", id: "sample-note" }, note + (binary ? " Columns of bytes: of the first rows, as each says." : "")), element("div", { class: "columns" }, cards)];
}

function columnElement(column, declared) {
  const facts = [];
  if (column.seen) facts.push(column.nulls ? `${share(column.nulls, column.seen)} null` : "no nulls");
  if (column.distinct !== undefined) facts.push(`${column.distinct.toLocaleString("en")} distinct`);
  if (column.not_finite) facts.push(`${column.not_finite.toLocaleString("en")} NaN or infinite`);
  const parts = [
    element("h3", {}, column.name),
    element("p", { class: "type" }, declared ? declared.type + (declared.nullable ? "" : ", never null") : ""),
    element("p", { class: "note" }, facts.join(" · "), column.seen ? ` · ${counted(column.seen, "row")}` : "not looked at"),
  ];
  if (column.nulls) parts.push(barElement(1 - column.nulls / column.seen));
  if (column.histogram) parts.push(histogramElement(column));
  if (column.top?.length) parts.push(topElement(column));
  if (column.lengths?.histogram && !column.top?.length) parts.push(element("p", { class: "note" }, "lengths"), histogramElement(column.lengths));
  if (column.note) parts.push(element("p", { class: "note" }, column.note));
  return element("article", { class: "column" }, parts);
}

function barElement(filled) {
  return drawing("svg", { class: "bar", viewBox: "0 0 100 4", preserveAspectRatio: "none", role: "img", "aria-label": "share of rows with a value" },
    drawing("rect", { class: "track", width: 100, height: 4 }), drawing("rect", { class: "filled", width: 100 * filled, height: 4 }));
}

function histogramElement(spread) {
  const counts = spread.histogram;
  if (spread.low === spread.high) return element("p", { class: "bounds" }, element("span", {}, `all ${spread.low}`));
  const most = Math.max(...counts, 1);
  const width = 320 / counts.length;
  const bars = counts.map((count, place) => {
    const height = count ? Math.max(1, (60 * count) / most) : 0;
    return drawing("rect", { x: place * width, y: 60 - height, width: Math.max(width - 1, 0.5), height }, drawing("title", {}, counted(count, "row")));
  });
  return element("div", { class: "histogram" },
    drawing("svg", { viewBox: "0 0 320 60", preserveAspectRatio: "none", role: "img", "aria-label": `histogram from ${spread.low} to ${spread.high}` }, bars),
    element("p", { class: "bounds" }, element("span", {}, spread.low), element("span", { title: "median" }, `median ${spread.median}`), element("span", {}, spread.high)));
}

function topElement(column) {
  const seen = column.seen - column.nulls;
  const lines = column.top.map(([text, count]) => element("li", {},
    element("span", { class: "label", title: text }, text === "" ? "empty text" : text),
    drawing("svg", { class: "bar", viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" }, drawing("rect", { class: "track", width: 100, height: 4 }), drawing("rect", { class: "filled", width: (100 * count) / seen, height: 4 })),
    element("span", { class: "count" }, share(count, seen))));
  return element("ol", { class: "top" }, lines);
}
