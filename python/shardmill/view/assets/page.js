// The fragment of the address says what is shown, so that going back, reloading and bookmarks work. The server makes the page of it; this
// script makes no markup of text.

const KEYS = {
  ArrowRight: "#next", ArrowLeft: "#previous", Home: "#first", End: "#last",
  "/": "#filter", s: "#search-value", g: "#row", t: "#layout",
};
const at = (id) => document.getElementById(id);
let running = null;

function go(fragment) {
  if (location.hash.slice(1) === fragment) show();
  else location.hash = fragment;
}

async function show(isNew = false) {
  running?.abort();
  const address = `view?${location.hash.slice(1)}&new=${isNew === true}`;
  at("content").setAttribute("aria-busy", "true");
  running = parsed(address, async (request, page) => {
    if (request !== running) return;
    if (page) {
      document.body.replaceChildren(...page.body.childNodes);
      if (at("title")) document.title = `${at("title").textContent} – shardmill view`;
      scrollTo(0, 0);
    } else {
      at("problem").textContent = (await asked(address)).error ?? "the page cannot be shown";
      at("problem").hidden = false;
      at("content").replaceChildren();
    }
    at("content").setAttribute("aria-busy", "false");
  });
}

// The browser parses what the server made; `then` gets null for anything but a page.
function parsed(address, then) {
  const request = new XMLHttpRequest();
  request.responseType = "document";
  request.open("GET", address);
  request.onloadend = () => then(request, request.status === 200 ? request.response : null);
  request.send();
  return request;
}

async function asked(address) {
  const answer = await fetch(address).catch(() => null);
  if (!answer) return { error: "the server does not answer" };
  return answer.headers.get("Content-Type") === "application/json" ? answer.json() : {};
}

function replace(node, name, className, text) {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  node.replaceWith(made);
}

async function showMore(button) {
  const whole = await asked(`data/text?${button.dataset.text}`);
  if (!whole.error) button.previousElementSibling.textContent = whole.text;
  replace(button, "span", "note", whole.error ?? (whole.cut ? ` … cut here, of ${whole.length.toLocaleString("en")} bytes` : ""));
}

function showTokens(button) {
  const address = `tokens?${button.dataset.tokens}`;
  button.disabled = true;
  parsed(address, async (_, page) => {
    if (page) button.closest(".part")?.replaceWith(...page.body.childNodes);
    else replace(button, "span", "note", (await asked(address)).error ?? "the server does not answer");
  });
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.dataset.go !== undefined) go(button.dataset.go);
  if (button?.dataset.text) showMore(button);
  if (button?.dataset.tokens) showTokens(button);
});

document.addEventListener("submit", (event) => {
  event.preventDefault();
  document.activeElement?.blur();
  const state = new URLSearchParams(location.hash.slice(1));
  for (const [name, value] of new FormData(event.target)) state.set(name, value);
  go(String(state));
});

document.addEventListener("change", (event) => {
  if (event.target.matches("select") && event.target.form.id === "count-form") event.target.form.requestSubmit();
});

// Neither event of an image bubbles.
document.addEventListener("load", ({ target }) => {
  const caption = target.closest?.("figure")?.querySelector("[data-unsized]");
  if (caption) caption.textContent = [`${target.naturalWidth} × ${target.naturalHeight}`, caption.textContent].filter(Boolean).join(" · ");
}, true);

document.addEventListener("error", async ({ target }) => {
  if (!target.matches?.("img")) return;
  replace(target.closest("a"), "p", "unseen", (await asked(target.src)).error ?? "the browser cannot show this image");
}, true);

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const target = Object.hasOwn(KEYS, event.key) && document.querySelector(KEYS[event.key]);
  if (!target) return;
  event.preventDefault();
  if (target.matches("input")) target.focus();
  else target.click();
});

addEventListener("hashchange", show);
show(true);
