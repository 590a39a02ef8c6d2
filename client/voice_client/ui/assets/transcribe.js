// The tab Transcribe: sound of a microphone or a file in, text out as it is heard.

import { LEVEL, clock, followed, inside, milliseconds, repeated, say, showLevel } from "./dom.js";
import { save, stamp } from "./files.js";
import { GONE, Link } from "./link.js";
import { LOST, Microphone } from "./microphone.js";

const PIECE = 256 * 1024; // bytes of a file in one message
const MOST_WAITING = 4 * 1024 * 1024; // bytes on their way; then reading the file waits

const MARKUP = `
  <div class="actions">
    <button class="primary" data-part="listen">Start microphone</button>
    <button data-part="choose">Choose a file …</button>
    <input type="file" accept="audio/*,video/*" data-part="file" aria-label="File to transcribe" hidden>
    <button data-part="cancel" hidden>Cancel</button>
    ${LEVEL}
  </div>
  <p class="error" role="alert" data-part="error" hidden></p>
  <p class="status" role="status" data-part="status">Ready.</p>
  <progress class="progress" max="1" value="0" aria-label="How much of the file was heard" data-part="progress"
    hidden></progress>
  <div class="text" role="log" aria-live="polite" aria-label="Transcript" tabindex="0" data-part="text">
    <p class="hint" data-part="hint">What is said appears here. You can also drop a file on this box.</p>
  </div>
  <dl class="facts">
    <div><dt>First words</dt><dd data-part="first">–</dd></div>
    <div><dt><abbr title="From the end of a turn to its final text">Final text</abbr></dt><dd data-part="final">–</dd></div>
    <div><dt>Heard</dt><dd data-part="length">–</dd></div>
  </dl>
  <div class="actions">
    <button data-part="txt" disabled>Save TXT</button>
    <button data-part="srt" disabled>Save SRT</button>
    <button data-part="json" disabled>Save JSON</button>
    <button data-part="summarize" hidden disabled>Summarize</button>
  </div>
  <div class="text summary" role="region" aria-live="polite" aria-label="Summary" dir="auto" data-part="summary" hidden></div>`;

const TYPES = { txt: "text/plain", srt: "application/x-subrip", json: "application/json" };

class VoiceTranscribe extends HTMLElement {
  connectedCallback() {
    if (this.link) return;
    this.part_ ??= inside(this, MARKUP);
    this.forms = null;
    this.state = "idle"; // idle, asking, listening, finishing, file, summarizing
    this.part_.summarize.hidden = this.dataset.summary !== "yes";
    this.link = new Link("transcribe", {
      onMessage: (message) => this.take(message),
      onState: (open) => this.connection(open),
    });
    this.part_.listen.onclick = (event) => {
      if (!repeated(event)) this.state === "listening" ? this.finish() : this.listen();
    };
    this.part_.choose.onclick = () => this.part_.file.click();
    this.part_.file.onchange = () => this.send(this.part_.file.files[0]);
    this.part_.cancel.onclick = () => this.cancel();
    this.part_.summarize.onclick = () => this.summarize();
    for (const kind of Object.keys(TYPES)) {
      this.part_[kind].onclick = () => save(`transcript-${stamp()}.${kind}`, TYPES[kind], this.forms[kind]);
    }
    this.part_.text.addEventListener("dragover", (event) => event.preventDefault());
    this.part_.text.addEventListener("drop", (event) => {
      event.preventDefault();
      if (this.state === "idle") this.send(event.dataTransfer.files[0]);
    });
  }

  disconnectedCallback() {
    this.link?.close();
    this.microphone?.stop();
    this.link = null;
  }

  async listen() {
    if (this.state !== "idle") return;
    this.clear();
    this.enter("asking");
    say(this.part_.status, "Asking the browser for the microphone …");
    const microphone = new Microphone({
      onSound: (samples) => this.link.send(samples.buffer),
      onLevel: (level) => showLevel(this.part_.level, level),
      onLost: () => {
        this.finish();
        say(this.part_.error, LOST);
      },
    });
    this.microphone = microphone;
    try {
      const format = await microphone.start({ echoCancellation: false });
      if (this.microphone !== microphone) return; // ended while the browser was asking
      if (!this.link.send({ type: "listen", ...format })) throw new Error(GONE);
      microphone.open();
      this.enter("listening");
      say(this.part_.status, "Connecting …");
    } catch (error) {
      if (this.microphone === microphone) await this.fail(error.message);
    }
  }

  // End the recording; its last words are still heard.
  async finish() {
    if (this.state !== "listening") return;
    this.enter("finishing");
    say(this.part_.status, "Waiting for the last words …");
    await this.release();
    this.link.send({ type: "listened" });
  }

  async send(file) {
    this.part_.file.value = "";
    if (!file || this.state !== "idle") return;
    this.clear();
    this.enter("file");
    this.sending = file;
    say(this.part_.status, `Sending ${file.name} …`);
    if (!this.link.send({ type: "file", name: file.name, size: file.size })) {
      await this.fail(GONE);
      return;
    }
    try {
      for (let at = 0; at < file.size; at += PIECE) {
        const piece = await file.slice(at, at + PIECE).arrayBuffer();
        while (this.link.waitingBytes > MOST_WAITING) await new Promise((resolve) => setTimeout(resolve, 20));
        if (this.sending !== file) return; // cancelled, or refused
        this.link.send(piece);
      }
    } catch (error) {
      if (this.sending !== file) return;
      this.link.send({ type: "stop" });
      await this.fail(`${file.name} cannot be read: ${error.message}`); // a folder, or a file that was moved away
    }
  }

  cancel() {
    this.link.send({ type: "stop" });
    this.settle("Cancelled.");
  }

  summarize() {
    this.part_.summary.textContent = "";
    this.part_.summary.hidden = false;
    say(this.part_.error, "");
    if (!this.link.send({ type: "summarize" })) {
      say(this.part_.error, GONE);
      return;
    }
    say(this.part_.status, "Summarizing …");
    this.enter("summarizing");
  }

  take(message) {
    switch (message.type) {
      case "hearing":
        say(this.part_.error, "");
        say(this.part_.status, this.state === "listening" ? "Listening: speak now." : "Hearing the file …");
        break;
      case "partial":
        this.showPartial(message.text);
        break;
      case "final":
        this.showFinal(message);
        break;
      case "progress":
        this.part_.progress.hidden = !message.of;
        if (message.of) this.part_.progress.value = message.seconds / message.of;
        break;
      case "notice":
        say(this.part_.status, message.message);
        break;
      case "lost":
        say(this.part_.error, `${message.message} What was heard stays; it goes on by itself when the endpoint is back.`);
        say(this.part_.status, "Trying again …");
        this.partial = null;
        break;
      case "forms": // of what was heard until it was cancelled, or failed
        this.forms = message;
        this.enter(this.state);
        break;
      case "transcribed":
        this.forms = message;
        this.settle(this.words ? "Done." : "Nobody spoke.");
        break;
      case "summary":
        this.part_.summary.textContent += message.delta;
        break;
      case "summarized":
        this.settle("Summarized.");
        break;
      case "error":
        this.fail(message.message);
        break;
    }
  }

  showPartial(text) {
    if (!this.partial) {
      this.partial = document.createElement("p");
      this.partial.className = "partial";
      this.partial.dir = "auto";
      this.partial.ariaLive = "off"; // read out once, when it is settled
      this.append_(this.partial);
    }
    followed(this.part_.text, () => (this.partial.textContent = text));
  }

  showFinal({ text, start, end, metrics }) {
    this.partial?.remove();
    this.partial = null;
    this.seconds = end;
    this.part_.first.textContent = milliseconds(metrics.first_partial_ms);
    this.part_.final.textContent = milliseconds(metrics.finalization_ms);
    this.part_.length.textContent = `${end.toFixed(1)} s`;
    if (!text) return;
    this.words = true;
    const paragraph = document.createElement("p");
    const time = document.createElement("time");
    time.textContent = clock(start);
    const words = document.createElement("span");
    words.dir = "auto";
    words.textContent = text;
    paragraph.append(time, words);
    this.append_(paragraph);
  }

  append_(paragraph) {
    this.part_.hint.remove();
    followed(this.part_.text, () => this.part_.text.append(paragraph));
  }

  clear() {
    this.forms = this.partial = null;
    this.words = false;
    this.part_.text.replaceChildren(this.part_.hint);
    this.part_.summary.hidden = true;
    this.part_.progress.hidden = true;
    this.part_.progress.value = 0;
    say(this.part_.error, "");
    for (const fact of ["first", "final", "length"]) this.part_[fact].textContent = "–";
  }

  async fail(message) {
    await this.release();
    this.part_.summary.hidden = !this.part_.summary.textContent;
    this.settle(this.state !== "summarizing" && this.words ? "What was heard until then is kept below." : "Ready.");
    say(this.part_.error, message);
  }

  settle(status) {
    this.partial?.classList.remove("partial");
    this.sending = null;
    this.release();
    this.enter("idle");
    this.part_.progress.hidden = true;
    say(this.part_.status, status);
  }

  async release() {
    const { microphone } = this;
    this.microphone = null;
    await microphone?.stop();
    showLevel(this.part_.level, -Infinity);
  }

  connection(open) {
    if (!open && this.state !== "idle") this.fail(GONE);
    else if (open && this.part_.error.textContent === GONE) say(this.part_.error, "");
  }

  enter(state) {
    this.state = state;
    const idle = state === "idle";
    this.part_.listen.textContent = state === "listening" ? "Stop microphone" : "Start microphone";
    this.part_.listen.disabled = !idle && state !== "listening";
    this.part_.listen.classList.toggle("recording", state === "listening");
    this.part_.choose.disabled = !idle;
    this.part_.cancel.hidden = !["file", "finishing", "summarizing"].includes(state);
    const whole = this.forms && this.words;
    for (const kind of Object.keys(TYPES)) this.part_[kind].disabled = !(whole && (idle || state === "summarizing"));
    this.part_.summarize.disabled = !(whole && idle);
  }
}

customElements.define("voice-transcribe", VoiceTranscribe);
