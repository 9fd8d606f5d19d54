// Cells, as the server cuts them, as elements.

import { asked, counted, element, size } from "./elements.js";

export function holdsPicture(cell) {
  if (cell.kind === "image" || cell.kind === "document") return true;
  if (cell.kind === "list") return cell.items.some(holdsPicture);
  return cell.kind === "struct" && cell.fields.some(([, inner]) => holdsPicture(inner));
}

export function cellElement(cell, place) {
  switch (cell.kind) {
    case "null": return element("span", { class: "null" }, "null");
    case "value": return element("span", { class: "value" }, cell.text);
    case "text": return textElement(cell, place);
    case "bytes": return element("span", { class: "bytes" }, element("code", {}, cell.text + (cell.cut ? " …" : "")), ` ${counted(cell.length, "byte")}`);
    case "image": return imageElement(cell);
    case "list": return listElement(cell, place);
    case "struct": return structElement(cell, place);
    case "document": return entriesElement(cell.entries, cell.length);
    default: return element("span", { class: "note" }, cell.text ?? "");
  }
}

function below(place, step) {
  return place && { row: place.row, path: [...place.path, step] };
}

function textElement(cell, place) {
  const text = element("span", { class: "text", dir: "auto" }, cell.text);
  if (cell.text === "") return element("span", { class: "null" }, "empty text");
  if (!cell.cut) return text;
  const more = element("button", { class: "more", type: "button" }, `… show more of ${size(cell.length)}`);
  if (!place) return element("span", {}, text, element("span", { class: "note" }, ` … of ${size(cell.length)}`));
  more.addEventListener("click", async () => {
    try {
      const whole = await asked("text", { row: place.row, path: JSON.stringify(place.path) });
      text.textContent = whole.text;
      more.replaceWith(element("span", { class: "note" }, whole.cut ? ` … cut here, of ${size(whole.length)}` : ""));
    } catch (problem) {
      more.replaceWith(element("span", { class: "note" }, problem.message));
    }
  });
  return element("span", {}, text, more);
}

function listElement(cell, place) {
  const more = cell.length - cell.items.length;
  const isFlat = cell.items.every((item) => item.kind === "value" || item.kind === "null");
  if (isFlat) {
    const texts = cell.items.map((item) => item.text ?? "null").join(", ");
    return element("span", { class: "value list" }, more > 0 ? `[${texts}, …` : `[${texts}]`, more > 0 ? element("span", { class: "note" }, ` ${counted(cell.length, "item")}]`) : null);
  }
  const items = cell.items.map((item, number) => element("li", {}, cellElement(item, below(place, number))));
  return element("div", {}, element("ol", { class: "items", start: 0 }, items), more > 0 ? element("span", { class: "note" }, `… and ${counted(more, "item")} more`) : null);
}

function structElement(cell, place) {
  const fields = cell.fields.map(([name, inner], number) => [element("dt", {}, name), element("dd", {}, cellElement(inner, below(place, number)))]);
  const more = cell.length - cell.fields.length;
  return element("dl", { class: "fields" }, fields, more > 0 ? element("dd", { class: "note" }, `… and ${counted(more, "field")} more`) : null);
}

function imageElement(cell) {
  const pages = cell.page === undefined && cell.pages > 1 ? Math.min(cell.pages, 12) : 0;
  if (!pages) return figureElement(cell);
  const figures = Array.from({ length: pages }, (_, page) => figureElement({ row: cell.row, path: cell.path, format: cell.format, page }));
  return element("div", { class: "pages" }, figures, cell.pages > pages ? element("span", { class: "note" }, `… ${cell.pages} pages`) : null);
}

function figureElement(cell) {
  const values = { row: cell.row, path: JSON.stringify(cell.path) };
  if (cell.page !== undefined) values.page = cell.page;
  const address = `data/image?${new URLSearchParams(values)}`;
  const name = cell.path[0];
  const image = element("img", { src: address, loading: "lazy", decoding: "async", alt: `${name} of row ${cell.row}` });
  const caption = element("figcaption", {}, factsOf(cell));
  const frame = element("a", { href: address, target: "_blank", rel: "noopener" }, image);
  const figure = element("figure", {}, frame, caption);
  image.addEventListener("load", () => {
    if (!cell.width) caption.textContent = [`${image.naturalWidth} × ${image.naturalHeight}`, caption.textContent].filter(Boolean).join(" · ");
  });
  image.addEventListener("error", async () => {
    let reason = "the browser cannot show this image";
    const answer = await fetch(address).catch(() => null);
    if (answer && !answer.ok) reason = (await answer.json()).error;
    frame.replaceWith(element("p", { class: "unseen" }, reason));
  });
  return figure;
}

function factsOf(cell) {
  const facts = [];
  if (cell.format) facts.push(cell.format === "webp" ? "WebP" : cell.format.toUpperCase());
  if (cell.width) facts.push(`${cell.width} × ${cell.height}`);
  if (cell.page !== undefined) facts.push(`page ${cell.page + 1}`);
  if (cell.bytes) facts.push(size(cell.bytes));
  if (cell.note) facts.push(cell.note);
  return facts.join(" · ");
}

// Texts on the left, the images that follow them on the right.
export function entriesElement(entries, length = entries.length) {
  const rows = [];
  for (const entry of entries) {
    const isPicture = entry.cell.kind === "image";
    const last = rows.at(-1);
    if (!last || (!isPicture && last.pictures.length)) rows.push({ texts: [], pictures: [] });
    rows.at(-1)[isPicture ? "pictures" : "texts"].push(entry);
  }
  const built = rows.map(({ texts, pictures }) => [
    element("div", { class: "texts" }, texts.map((entry) => entryElement(entry, { row: entry.row, path: ["text_content"] }))),
    element("div", { class: "pictures" }, pictures.map((entry) => entryElement(entry))),
  ]);
  const more = length - entries.length;
  return element("div", { class: "document" }, built, more > 0 && entries.length === 400 ? element("p", { class: "note" }, `… ${counted(length, "entry").replace("entrys", "entries")} in all`) : null);
}

function entryElement(entry, place) {
  const facts = (entry.facts ?? []).map(([name, cell]) => element("span", { class: "fact" }, element("b", {}, name), " ", cellElement(cell)));
  const isPlaced = place && place.row !== undefined;
  return element("div", { class: "entry" }, element("span", { class: "position" }, String(entry.position)), element("div", {}, cellElement(entry.cell, isPlaced ? place : undefined), facts.length ? element("details", {}, element("summary", {}, "facts"), facts) : null));
}
