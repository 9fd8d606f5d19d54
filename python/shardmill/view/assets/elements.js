// Elements of the page. Text is only ever set as text, so nothing from the data becomes markup.

const DRAWING = "http://www.w3.org/2000/svg";

export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function drawing(name, attributes = {}, ...children) {
  return filled(document.createElementNS(DRAWING, name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null) node.setAttribute(name, String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

export function counted(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

export function size(bytes) {
  let number = bytes;
  for (const unit of ["bytes", "KiB", "MiB", "GiB", "TiB"]) {
    if (number < 1024 || unit === "TiB") return unit === "bytes" ? counted(bytes, "byte") : `${number.toFixed(1)} ${unit}`;
    number /= 1024;
  }
  return "";
}

export function share(part, whole) {
  if (!whole) return "0 %";
  const percent = (100 * part) / whole;
  if (part > 0 && percent < 0.1) return "< 0.1 %";
  if (part < whole && percent > 99.9) return "> 99.9 %";
  return `${percent.toFixed(percent < 10 ? 1 : 0)} %`;
}

export async function asked(route, values, signal) {
  const answer = await fetch(`data/${route}?${new URLSearchParams(values)}`, { signal });
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.error);
  return content;
}
