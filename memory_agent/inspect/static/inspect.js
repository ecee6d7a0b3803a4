// Endless scrolling: the link to later turns is followed before it is reached, and what it leads to is put in its place.
// Without this the link is a link.
const list = document.querySelector("ol[data-more]");
const watch = list && new IntersectionObserver(async ([seen]) => {
  if (!seen.isIntersecting) return;
  watch.disconnect();
  const link = seen.target;
  const answer = await fetch(link.href, { redirect: "manual" }).catch(() => null);
  if (!answer || !answer.ok) return;  // the link is still there, and says what is wrong when it is followed
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const found = page.querySelector("ol[data-more]");
  const same = found.querySelector(".session") && found.querySelector(".session").textContent;
  const last = [...list.querySelectorAll(".session")].pop();
  if (same && last && last.textContent === same) found.querySelector(".session").remove();
  list.append(...found.children);
  const next = page.querySelector("a[data-next]");
  if (next) {
    link.href = next.href;
    watch.observe(link);
  } else {
    link.remove();
  }
}, { rootMargin: "1200px" });
const next = document.querySelector("a[data-next]");
if (watch && next) watch.observe(next);

// A live page: its parts are put in as the service sends them. Hidden, it lets go of its connection, of which a browser has few.
const live = document.querySelector("[data-events]");
if (live) {
  const state = document.querySelector("[data-state]");
  const say = (name) => {
    if (state.dataset.now === name) return;
    state.dataset.now = name;
    state.hidden = false;
    state.textContent = state.dataset[name];
  };
  const put = (part) => {
    const old = document.getElementById(part.id);
    if (!old || old.innerHTML === part.innerHTML) return;
    const named = (one) => [one.tagName, one.getAttribute("href"), one.value, one.getAttribute("aria-label")].join();
    const at = old.contains(document.activeElement) && named(document.activeElement);
    old.replaceWith(part);
    // The same button, wherever it stands now: the next key must not be another's.
    if (at) [...part.querySelectorAll("a, button, [tabindex]")].find((one) => named(one) === at)?.focus({ preventScroll: true });
  };
  let source;
  const open = () => {
    source?.close();
    source = new EventSource(live.dataset.events);
    source.onmessage = ({ data }) => {
      new DOMParser().parseFromString(data, "text/html").querySelectorAll("[data-part]").forEach(put);
      say("live");
    };
    source.onerror = () => say(source.readyState === EventSource.CLOSED ? "ended" : "waiting");
    source.addEventListener("away", () => say("waiting"));
    source.addEventListener("end", () => {
      source.close();
      location.reload();  // which leads to the form that asks for a key
    });
  };
  document.addEventListener("visibilitychange", () => document.hidden ? source?.close() : open());
  if (!document.hidden) open();
}

// The day under the slider's thumb, while it is moved; the button shows it.
const day = document.querySelector("input#day[type=range]");
if (day) day.addEventListener("input", () => {
  const text = new Date((day.value - 719163) * 86400000).toISOString().slice(0, 10);  // counted from the year 1 on
  document.querySelector("output[data-day]").textContent = text;
  day.setAttribute("aria-valuetext", text);
});

// Ctrl+Enter in a question asks it.
const question = document.querySelector("textarea#q");
if (question) {
  document.querySelector("[data-keys]").hidden = false;
  question.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) question.form.requestSubmit();
  });
}
