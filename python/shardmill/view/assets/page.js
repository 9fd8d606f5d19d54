// What is shown is said by the fragment of the address, so that going back, reloading and bookmarks work.

import { cellElement, entriesElement, holdsPicture } from "./cells.js";
import { columnsElement } from "./columns.js";
import { asked, counted, element, share, size } from "./elements.js";

const at = (id) => document.getElementById(id);
const VIEWS = { samples: "Samples", documents: "Documents", columns: "Columns", files: "Files" };
const SHOWN = { both: "Side by side", kept: "Kept", dropped: "Dropped", all: "All rows" };
const defaults = { view: "samples", start: 0, count: 20, filter: "", column: "", value: "", show: "both", layout: "" };

let overview = null;
let state = { ...defaults };
let total = 0;
let nextDocument = null;
const documentsBefore = [];
let running = null;

function stateOfAddress() {
  const values = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const read = { ...defaults, ...values };
  for (const name of ["start", "count"]) read[name] = Math.max(0, Number.parseInt(read[name], 10) || defaults[name]);
  if (!(read.view in VIEWS)) read.view = "samples";
  if (!(read.show in SHOWN)) read.show = "both";
  return read;
}

function go(changes) {
  const wanted = { ...state, ...changes };
  const kept = Object.entries(wanted).filter(([name, value]) => value !== defaults[name]);
  const fragment = new URLSearchParams(kept).toString();
  if (location.hash.slice(1) === fragment) show();
  else location.hash = fragment;
}

const isDivided = () => Boolean(state.filter.trim() || state.column);

async function show() {
  state = stateOfAddress();
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  at("content").setAttribute("aria-busy", "true");
  drawTools();
  try {
    const content = await { samples, documents, columns, files }[state.view](signal);
    if (signal.aborted) return;
    at("problem").hidden = true;
    at("content").replaceChildren(...content);
    at("content").scrollTop = 0;
    scrollTo(0, 0);
  } catch (problem) {
    if (signal.aborted) return;
    at("problem").textContent = problem.message;
    at("problem").hidden = false;
    at("verdict").hidden = true;
    at("content").replaceChildren();
    total = 0;
  }
  drawPager();
  at("content").setAttribute("aria-busy", "false");
}

async function samples(signal) {
  const values = { start: state.start, count: state.count, show: isDivided() ? state.show : "all", filter: state.filter };
  if (state.column) Object.assign(values, { column: state.column, value: state.value });
  const page = await asked("samples", values, signal);
  if (signal.aborted) return [];
  total = page.total;
  drawVerdict(page);
  const all = [...page.samples, ...(page.dropped_samples ?? [])];
  const isTable = (state.layout || chosenLayout(all)) === "table";
  at("layout").textContent = isTable ? "Cards" : "Table";
  const draw = isTable ? tableElement : cardsElement;
  if (!page.dropped_samples) return [page.samples.length ? draw(page.samples) : element("p", { class: "empty" }, page.rows ? "No rows here." : "The data set has no rows.")];
  const halves = [["Kept", page.samples, page.kept], ["Dropped", page.dropped_samples, page.dropped]].map(([title, rows, count]) =>
    element("section", { class: "half", "data-half": title.toLowerCase() }, element("h2", {}, title, " ", element("span", { class: "note" }, counted(count, "row"))), rows.length ? draw(rows) : element("p", { class: "empty" }, "No rows here.")));
  return [element("div", { class: "halves" }, halves)];
}

function chosenLayout(rows) {
  const cells = rows.flatMap((row) => row.fields.map(([, cell]) => cell));
  const isLong = cells.some((cell) => cell.kind === "text" && cell.text.length > 240);
  return isLong || cells.some(holdsPicture) ? "cards" : "table";
}

function rowLabel(row) {
  return element("span", { class: "row", title: `row ${row.file_row} of ${row.file}` }, row.row.toLocaleString("en"));
}

function markOf(row) {
  return row.kept === undefined ? "" : row.kept ? " kept" : " dropped";
}

function cardsElement(rows) {
  return element("div", { class: "cards" }, rows.map((row) => {
    const pictures = row.fields.filter(([, cell]) => holdsPicture(cell) && cell.kind !== "document");
    const others = row.fields.filter(([, cell]) => !pictures.some(([, picture]) => picture === cell));
    const list = ([name, cell]) => [element("dt", {}, name), element("dd", {}, cellElement(cell, { row: row.row, path: [name] }))];
    return element("article", { class: `card${markOf(row)}`, "data-row": row.row },
      element("header", {}, rowLabel(row), element("span", { class: "note" }, `${row.file} · ${row.file_row.toLocaleString("en")}`), documentLink(row)),
      element("dl", { class: "fields" }, others.map(list)),
      pictures.length ? element("dl", { class: "pictures" }, pictures.map(list)) : null);
  }));
}

function documentLink(row) {
  if (!overview.interleaved) return null;
  return element("button", { type: "button", class: "more", click: () => go({ ...defaults, view: "documents", start: row.row }) }, "its document");
}

function tableElement(rows) {
  const names = rows[0].fields.map(([name]) => name);
  return element("div", { class: "scrolls" }, element("table", {},
    element("thead", {}, element("tr", {}, element("th", {}, "row"), names.map((name) => element("th", {}, name, element("span", { class: "type" }, typeOf(name)))))),
    element("tbody", {}, rows.map((row) => element("tr", { class: markOf(row).trim(), "data-row": row.row }, element("th", {}, rowLabel(row)),
      row.fields.map(([name, cell]) => element("td", { class: cell.kind }, element("div", {}, cellElement(cell, { row: row.row, path: [name] })))))))));
}

const typeOf = (name) => overview.columns.find((column) => column.name === name)?.type ?? "";

async function documents(signal) {
  const page = await asked("documents", { start: state.start, count: Math.min(state.count, 10) }, signal);
  if (signal.aborted) return [];
  nextDocument = page.next;
  total = overview.rows;
  at("verdict").hidden = true;
  return [element("div", { class: "cards" }, page.documents.map((found) => element("article", { class: "card whole", "data-row": found.row },
    element("header", {}, element("span", { class: "row" }, found.row.toLocaleString("en")), element("h3", {}, found.id), element("span", { class: "note" }, counted(found.rows, "row"))),
    found.facts.length ? element("details", {}, element("summary", {}, "facts of the document"), element("dl", { class: "fields" }, found.facts.map(([name, cell]) => [element("dt", {}, name), element("dd", {}, cellElement(cell, { row: found.row, path: [name] }))]))) : null,
    entriesElement(found.entries))))];
}

async function columns(signal) {
  at("verdict").hidden = true;
  return columnsElement(await asked("statistics", {}, signal), overview);
}

async function files() {
  at("verdict").hidden = true;
  const more = overview.file_count - overview.files.length;
  return [element("p", { class: "note" }, `${counted(overview.file_count, "file")}, ${size(overview.bytes)}`), element("ol", { class: "files" }, overview.files.map((path) => element("li", {}, path))), more > 0 ? element("p", { class: "note" }, `… and ${counted(more, "file")} more`) : ""];
}

function drawTools() {
  at("filter").value = state.filter;
  at("search-value").value = state.value;
  if (state.column) at("search-column").value = state.column;
  at("count").value = String(state.count);
  document.body.dataset.view = state.view;
  at("views").replaceChildren(...Object.entries(VIEWS).filter(([name]) => name !== "documents" || overview.interleaved).map(([name, title]) =>
    element("button", { type: "button", "aria-pressed": String(name === state.view), click: () => go({ view: name, start: 0 }) }, title)));
  if (!isDivided()) at("verdict").hidden = true;
}

function drawVerdict(page) {
  at("verdict").hidden = page.kept === undefined;
  if (page.kept === undefined) return;
  const buttons = Object.entries(SHOWN).map(([name, title]) =>
    element("button", { type: "button", "aria-pressed": String(name === state.show), click: () => go({ show: name, start: 0 }) }, title));
  at("verdict").replaceChildren(
    element("p", { id: "kept" }, element("b", {}, page.kept.toLocaleString("en")), ` of ${counted(page.rows, "row")} kept, ${share(page.kept, page.rows)}; ${page.dropped.toLocaleString("en")} dropped`),
    element("meter", { min: 0, max: Math.max(page.rows, 1), value: page.kept, "aria-label": "share of kept rows" }),
    element("div", { class: "choice" }, buttons),
    element("button", { type: "button", class: "more", id: "clear", click: () => go({ filter: "", column: "", value: "", start: 0, show: defaults.show }) }, "Clear"));
}

function drawPager() {
  const isPaged = state.view === "samples" || state.view === "documents";
  document.querySelector("footer").hidden = !isPaged;
  const isDocuments = state.view === "documents";
  const end = isDocuments ? (nextDocument ?? total) : Math.min(state.start + state.count, total);
  at("range").textContent = total ? `${isDocuments ? "rows " : ""}${state.start.toLocaleString("en")} – ${(end - 1).toLocaleString("en")} of ${total.toLocaleString("en")}` : "no rows";
  at("first").disabled = at("previous").disabled = state.start === 0;
  at("next").disabled = at("last").disabled = isDocuments ? nextDocument === null : end >= total;
}

function turn(direction) {
  if (at(direction).disabled) return;
  if (state.view === "documents") {
    if (direction === "next") documentsBefore.push(state.start);
    const back = direction === "previous" ? (documentsBefore.pop() ?? Math.max(0, state.start - 1)) : 0;
    go({ start: { first: 0, previous: back, next: nextDocument, last: Math.max(0, total - 1) }[direction] });
    return;
  }
  const last = Math.floor(Math.max(0, total - 1) / state.count) * state.count;
  go({ start: { first: 0, previous: Math.max(0, state.start - state.count), next: state.start + state.count, last }[direction] });
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const actions = {
    ArrowRight: () => turn("next"), ArrowLeft: () => turn("previous"), Home: () => turn("first"), End: () => turn("last"),
    "/": () => at("filter").focus(), s: () => at("search-value").focus(), g: () => at("row").focus(), t: () => at("layout").click(),
  };
  if (!(event.key in actions)) return;
  event.preventDefault();
  actions[event.key]();
}

function listen() {
  for (const direction of ["first", "previous", "next", "last"]) at(direction).addEventListener("click", () => turn(direction));
  const onSubmit = (id, action) => at(id).addEventListener("submit", (event) => {
    event.preventDefault();
    document.activeElement?.blur();
    action();
  });
  onSubmit("filter-form", () => go({ view: "samples", filter: at("filter").value, start: 0 }));
  onSubmit("search-form", () => {
    const column = at("search-value").value === "" ? "" : at("search-column").value;
    go({ view: "samples", column, value: at("search-value").value, start: 0, show: column ? "kept" : defaults.show });
  });
  onSubmit("row-form", () => {
    const row = Number.parseInt(at("row").value.replace(/\D/g, ""), 10);
    if (Number.isSafeInteger(row)) go({ start: Math.min(row, Math.max(0, total - 1)) });
  });
  at("count").addEventListener("change", () => go({ count: Number(at("count").value) }));
  at("layout").addEventListener("click", () => go({ layout: at("layout").textContent === "Table" ? "table" : "cards" }));
  addEventListener("keydown", onKey);
  addEventListener("hashchange", show);
}

async function begin() {
  try {
    overview = await asked("overview", {});
  } catch (problem) {
    at("problem").textContent = problem.message;
    at("problem").hidden = false;
    return;
  }
  const name = overview.paths.length === 1 ? overview.paths[0] : `${overview.paths[0]} and ${counted(overview.paths.length - 1, "path")} more`;
  at("title").textContent = name;
  document.title = `${name} – shardmill view`;
  const facts = [counted(overview.rows, "row"), counted(overview.columns.length, "column"), counted(overview.file_count, `${overview.format ?? ""} file`.trim()), size(overview.bytes)];
  if (overview.filter) facts.push(`where ${overview.filter}`);
  at("facts").textContent = facts.join(" · ");
  at("search-column").replaceChildren(...overview.columns.map((column) => element("option", {}, column.name)));
  if (overview.interleaved) defaults.view = "documents";
  listen();
  show();
}

begin();
