// The tab Speak: text in, sound out as it is made.

import { fieldValue, inside, milliseconds, repeated, say } from "./dom.js";
import { saveWav, stamp } from "./files.js";
import { GONE, Link } from "./link.js";
import { Player, RATE } from "./player.js";
import { Waveform } from "./waveform.js";

const LONGEST_TEXT = 200_000; // characters, some four hours of speech; a message of the page holds a megabyte
const WARM_EVERY_MS = 10_000; // an idle stream is ended by the server after 30 s

const MARKUP = `
  <div class="actions">
    <button class="primary" data-part="generate" title="Ctrl+Enter in the text">Generate</button>
    <button data-part="stop" title="Escape" disabled>Stop</button>
    <button data-part="save" disabled>Save as WAV</button>
  </div>
  <p class="error" role="alert" data-part="error" hidden></p>
  <canvas class="wave" role="img" aria-label="Waveform of the speech" data-part="wave"></canvas>
  <p class="status" role="status" data-part="status">Ready.</p>
  <dl class="facts">
    <div><dt>First sound</dt><dd data-part="first">–</dd></div>
    <div><dt>Length</dt><dd data-part="length">–</dd></div>
    <div><dt>Chunks</dt><dd data-part="chunks">–</dd></div>
    <div><dt>Bytes</dt><dd data-part="bytes">–</dd></div>
    <div><dt><abbr title="Time to make the speech divided by its length; below 1 is faster than real time">RTF</abbr></dt>
      <dd data-part="rtf">–</dd></div>
    <div><dt>Gaps</dt><dd data-part="gaps">–</dd></div>
  </dl>`;

class VoiceSpeak extends HTMLElement {
  connectedCallback() {
    if (this.link) return;
    this.part_ ??= inside(this, MARKUP);
    this.utterance = 0;
    this.spoken = []; // {sentence, pcm} in order
    this.wave = new Waveform(this.part_.wave);
    this.player = new Player();
    this.link = new Link("speak", {
      onMessage: (message) => this.take(message),
      onAudio: (utterance, sentence, pcm) => this.audio(utterance, sentence, pcm),
      onState: (open) => this.connection(open),
    });
    this.part_.generate.onclick = (event) => {
      if (!(repeated(event) && this.busy)) this.generate(event.timeStamp);
    };
    this.part_.stop.onclick = () => this.stop();
    this.part_.save.onclick = () => saveWav(`speech-${stamp()}.wav`, this.spoken.map(({ pcm }) => pcm));
    this.player.addEventListener("started", ({ detail }) => this.started(detail));
    this.player.addEventListener("position", ({ detail }) => this.position(detail));
    this.player.addEventListener("ended", ({ detail }) => this.ended(detail));
    this.listeners = new AbortController();
    const { signal } = this.listeners;
    // The first gesture anywhere wakes the loudspeaker and, in the text, the connection: a click need not wait for it.
    document.addEventListener("pointerdown", () => this.player.prepare(), { signal, once: true });
    document.addEventListener("keydown", (event) => this.key(event), { signal });
    document.addEventListener("focusin", ({ target }) => this.warm(target), { signal });
    document.addEventListener("input", ({ target }) => this.warm(target), { signal });
    this.player.prepare();
  }

  disconnectedCallback() {
    this.listeners?.abort();
    this.link?.close();
    this.player?.close();
    this.wave?.close();
    this.link = null;
  }

  get busy() {
    return Boolean(this.current);
  }

  key(event) {
    const inText = event.target.closest?.("#speak-text");
    if (inText && event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.generate(event.timeStamp);
    } else if (event.key === "Escape" && this.busy && this.checkVisibility()) this.stop();
  }

  // Somebody is about to write a text, or writes one: have a stream open for it.
  warm(target) {
    if (!target.closest?.("#speak-text") || this.busy) return;
    const now = performance.now();
    if (this.warmedAt && now - this.warmedAt < WARM_EVERY_MS) return;
    this.warmedAt = now;
    this.link.send({ type: "warm", ...this.manner() });
  }

  manner() {
    return {
      voice: fieldValue("speak-voice"),
      language: fieldValue("speak-language"),
      instructions: fieldValue("speak-instructions"),
    };
  }

  async generate(clickedAt) {
    const text = fieldValue("speak-text");
    const wrong = unspeakable(text);
    say(this.part_.error, wrong);
    if (wrong) return;
    this.utterance += 1;
    const { utterance } = this;
    this.current = { utterance, clickedAt, chunks: 0, bytes: 0, startedAt: null };
    this.spoken = [];
    this.wave.clear();
    this.showFacts();
    this.enable();
    say(this.part_.status, "Asking for speech …");
    const request = {
      type: "speak",
      utterance,
      text,
      ...this.manner(),
    };
    if (!this.link.send(request)) {
      this.fail(GONE);
      return;
    }
    try {
      await this.player.prepare();
    } catch (error) {
      this.link.send({ type: "stop" });
      this.fail(`The browser cannot play sound: ${error.message}`);
      return;
    }
    if (this.current?.utterance !== utterance) return;
    this.player.begin(utterance);
    for (const { sentence, pcm } of this.spoken) this.player.push(utterance, sentence, pcm);
    this.current.playing = true;
    if (this.current.complete) this.player.end(utterance);
  }

  stop() {
    if (!this.busy) return;
    this.stoppedAt = performance.now();
    this.player.stop();
    this.link.send({ type: "stop" });
    this.current = null;
    this.enable();
    say(this.part_.status, "Stopped.");
  }

  fail(message) {
    this.player.stop();
    this.current = null;
    this.enable();
    say(this.part_.error, message);
    say(this.part_.status, this.spoken.length ? "What was spoken until then can be saved." : "Ready.");
  }

  take(message) {
    if (message.utterance !== undefined && message.utterance !== this.current?.utterance) return;
    switch (message.type) {
      case "speaking":
        // null: a text of more than a page is cut into sentences while it is spoken
        say(this.part_.status, message.sentences === null ? "Speaking …" : `Speaking ${message.sentences} sentence${message.sentences === 1 ? "" : "s"} …`);
        break;
      case "restarted":
        this.spoken = this.spoken.filter(({ sentence }) => sentence !== message.sentence);
        this.player.restart(message.utterance, message.sentence);
        this.wave.replace(this.spoken.map(({ pcm }) => pcm));
        break;
      case "notice":
        say(this.part_.status, message.message);
        break;
      case "spoken":
        this.current.complete = true;
        this.current.metrics = message.metrics;
        if (this.current.playing) this.player.end(message.utterance);
        this.showFacts();
        break;
      case "error":
        if (!(message.warming && this.busy)) this.fail(message.message);
        break;
    }
  }

  audio(utterance, sentence, pcm) {
    const { current } = this;
    if (current?.utterance !== utterance) return;
    current.chunks += 1;
    current.bytes += pcm.byteLength;
    current.lastAt = performance.now();
    current.arrivedAt ??= current.lastAt;
    this.spoken.push({ sentence, pcm });
    if (current.playing) this.player.push(utterance, sentence, pcm);
    this.wave.add(pcm);
    this.enable();
    this.showFacts();
  }

  started({ utterance, at }) {
    if (this.current?.utterance !== utterance) return;
    this.current.startedAt = at;
    this.showFacts();
  }

  position({ utterance, played, gaps }) {
    if (this.current?.utterance !== utterance) return;
    this.wave.playedTo(played);
    this.current.gaps = gaps;
    this.part_.gaps.textContent = gaps;
  }

  ended({ utterance, gaps }) {
    if (this.current?.utterance !== utterance) return;
    this.wave.playedTo(Infinity);
    this.last = this.current;
    this.current = null;
    this.enable();
    this.part_.gaps.textContent = gaps;
    say(this.part_.status, "Done.");
  }

  connection(open) {
    if (!open && this.busy) this.fail(GONE);
    else if (open && this.part_.error.textContent === GONE) say(this.part_.error, "");
  }

  enable() {
    this.part_.stop.disabled = !this.busy;
    this.part_.save.disabled = !this.spoken.length;
  }

  showFacts() {
    const { current } = this;
    const seconds = current.bytes / 2 / RATE;
    const { metrics } = current;
    this.part_.first.textContent = milliseconds(current.startedAt ? current.startedAt - current.clickedAt : null);
    this.part_.length.textContent = seconds ? `${seconds.toFixed(1)} s` : "–";
    this.part_.chunks.textContent = current.chunks || "–";
    this.part_.bytes.textContent = current.bytes ? current.bytes.toLocaleString("en") : "–";
    const live = seconds ? (current.lastAt - current.clickedAt) / 1000 / seconds : null;
    const rtf = metrics ? metrics.rtf : live;
    this.part_.rtf.textContent = rtf === null ? "–" : rtf.toFixed(2);
  }
}

// Why a text cannot be spoken; empty when it can.
function unspeakable(text) {
  if (!text.trim()) return "There is no text to speak: write one.";
  if (text.length <= LONGEST_TEXT) return "";
  const [has, most] = [text.length, LONGEST_TEXT].map((number) => number.toLocaleString("en"));
  return `The text has ${has} characters, more than ${most}: "voice speak" takes texts of any length.`;
}

customElements.define("voice-speak", VoiceSpeak);
