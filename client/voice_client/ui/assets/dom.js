// Small things that all three tabs need of the document.

// The value of a Gradio text box or dropdown by its element id.
export function fieldValue(id) {
  return document.querySelector(`#${id} textarea, #${id} input`)?.value ?? "";
}

// The inside of a panel, apart from the frame's styles; its colours come from the frame's theme by custom properties.
const sheet = new CSSStyleSheet();
const styled = fetch(new URL("./voice.css", import.meta.url))
  .then((answer) => answer.text())
  .then((rules) => sheet.replace(rules));

export function inside(element, markup) {
  const shadow = element.attachShadow({ mode: "open" });
  shadow.adoptedStyleSheets = [sheet];
  shadow.innerHTML = `<div class="panel" hidden>${markup}</div>`;
  styled.finally(() => shadow.firstChild.removeAttribute("hidden"));
  return parts(shadow);
}

// Elements inside a panel by their `data-part`.
function parts(panel) {
  return Object.fromEntries([...panel.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]));
}

// Say something: in the status line; a failure in a box that screen readers read out at once.
export function say(part, text) {
  if (part.textContent !== text) part.textContent = text;
  part.hidden = !text;
}

// Whether a click is the second of a double click: of a button that starts and stops it would undo the first.
export function repeated(event) {
  return event.detail > 1;
}

// Show the newest line of a box, unless somebody has scrolled back to read: `add` adds it. A box in a tab that is not
// shown forgets how far it was scrolled.
export function followed(box, add) {
  const shown = box.clientHeight > 0;
  const atEnd = box.missed || box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  box.missed = !shown;
  add();
  if (atEnd) box.scrollTop = box.scrollHeight;
}

export function milliseconds(value) {
  return value === null || value === undefined ? "–" : `${Math.round(value)} ms`;
}

export function clock(seconds) {
  const whole = Math.floor(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

export const LEVEL = `<span class="meter"><span class="level" aria-hidden="true">Level</span>
    <span class="bar" role="meter" aria-label="Microphone level" aria-valuemin="0" aria-valuemax="100" aria-valuenow="0"
      data-part="level"><i></i></span></span>`;

// A level in dBFS on a bar of 0 to 100: from -60, a quiet room, to -6, loud speech.
export function showLevel(bar, level) {
  const share = Math.round(Math.max(0, Math.min(100, ((level + 60) / 54) * 100)));
  bar.firstChild.style.width = `${share}%`;
  bar.setAttribute("aria-valuenow", share);
}
