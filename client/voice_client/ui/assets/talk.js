// The tab Talk: a conversation. It listens while it speaks; who speaks over it interrupts it.

import { LEVEL, fieldValue, followed, inside, milliseconds, repeated, say, showLevel } from "./dom.js";
import { GONE, Link } from "./link.js";
import { LOST, Microphone } from "./microphone.js";
import { Player } from "./player.js";

const MARKUP = `
  <div class="actions">
    <button class="primary" data-part="talk">Start talking</button>
    <button data-part="interrupt" title="Escape" disabled>Stop the voice</button>
    <label class="check"><input type="checkbox" data-part="barge" checked> I may interrupt by speaking</label>
    <label class="check" title="Your microphone does not hear the voice: the browser need not take an echo out">
      <input type="checkbox" data-part="headset"> I wear a headset</label>
    ${LEVEL}
  </div>
  <p class="error" role="alert" data-part="error" hidden></p>
  <p class="status state" role="status" data-part="status">Ready.</p>
  <div class="text dialog" role="log" aria-live="polite" aria-label="Conversation" tabindex="0" data-part="text">
    <p class="hint" data-part="hint">Press "Start talking", and speak. A pause ends your turn.</p>
  </div>
  <div class="table"><table>
    <caption>Waits of each turn, in milliseconds: from the end of your speech to the first sound of the answer</caption>
    <thead><tr><th scope="col">Turn</th><th scope="col">Final text</th><th scope="col">First token</th>
      <th scope="col">First sound</th><th scope="col">In all</th></tr></thead>
    <tbody data-part="waits"></tbody>
  </table></div>`;

class VoiceTalk extends HTMLElement {
  connectedCallback() {
    if (this.link) return;
    this.part_ ??= inside(this, MARKUP);
    this.active = false;
    this.player = new Player();
    this.link = new Link("talk", {
      onMessage: (message) => this.take(message),
      onAudio: (turn, sentence, pcm) => this.audio(turn, sentence, pcm),
      onState: (open) => this.connection(open),
    });
    this.part_.talk.onclick = (event) => {
      if (!repeated(event)) this.active ? this.end("Ended.") : this.start();
    };
    this.part_.interrupt.onclick = () => this.interrupt();
    this.player.addEventListener("started", ({ detail }) => this.started(detail));
    this.player.addEventListener("ended", () => this.silent());
    this.listeners = new AbortController();
    const { signal } = this.listeners;
    document.addEventListener("keydown", ({ key }) => key === "Escape" && this.checkVisibility() && this.interrupt(), {
      signal,
    });
  }

  disconnectedCallback() {
    this.listeners?.abort();
    this.link?.close();
    this.microphone?.stop();
    this.player?.close();
    this.link = null;
  }

  async start() {
    this.clear();
    this.active = true;
    this.enable();
    say(this.part_.status, "Asking the browser for the microphone …");
    const microphone = new Microphone({
      onSound: (samples) => this.link.send(samples.buffer),
      onLevel: (level) => showLevel(this.part_.level, level),
      onLost: () => this.fail(LOST),
    });
    this.microphone = microphone;
    try {
      const echoCancellation = !this.part_.headset.checked;
      const [format] = await Promise.all([microphone.start({ echoCancellation }), this.player.prepare()]);
      if (this.microphone !== microphone) return; // ended while the browser was asking
      const request = {
        type: "talk",
        ...format,
        voice: fieldValue("talk-voice"),
        language: fieldValue("talk-language"),
        barge_in: this.part_.barge.checked,
      };
      if (!this.link.send(request)) throw new Error(GONE);
      say(this.part_.status, "Connecting …");
      microphone.open();
    } catch (error) {
      if (this.microphone === microphone) await this.fail(error.message);
    }
  }

  async end(status) {
    this.active = false;
    this.turn = null;
    this.player.stop();
    this.link.send({ type: "stop" });
    const { microphone } = this;
    this.microphone = null;
    await microphone?.stop();
    showLevel(this.part_.level, -Infinity);
    this.enable();
    say(this.part_.status, status);
  }

  interrupt() {
    if (this.turn === null || this.turn === undefined) return;
    this.link.send({ type: "interrupt" });
    this.quiet();
    say(this.part_.status, "Listening: speak now.");
  }

  // Fall silent at once.
  quiet() {
    this.turn = null;
    this.player.stop();
    this.enable();
  }

  take(message) {
    if (!this.active && message.type !== "error") return;
    switch (message.type) {
      case "listening":
        say(this.part_.error, "");
        say(this.part_.status, "Listening: speak now.");
        break;
      case "user_speaks":
        say(this.part_.status, "Hearing you …");
        break;
      case "partial":
        this.words("you", message.text, { partial: true });
        break;
      case "turn":
        say(this.part_.error, "");
        this.words("you", message.text, { partial: false });
        this.said = null;
        this.answer(message.turn);
        break;
      case "reply":
        this.reply(message.delta);
        break;
      case "restarted":
        this.player.restart(message.turn, message.sentence);
        break;
      case "interrupted":
        this.quiet();
        this.cutOff();
        say(this.part_.status, "Hearing you …");
        break;
      case "resumed":
        this.answer(message.turn);
        break;
      case "replied":
        this.complete = true;
        if (this.begun) this.player.end(message.turn);
        else this.silent();
        break;
      case "measured":
        this.measures = message.metrics;
        this.showWaits();
        break;
      case "failed":
        say(this.part_.error, message.message); // what was made of the reply is still spoken; "replied" follows
        break;
      case "notice":
        say(this.part_.status, message.message);
        break;
      case "lost":
        this.quiet();
        this.cutOff();
        this.said = null;
        say(this.part_.error, `${message.message} The conversation goes on by itself when the endpoint is back.`);
        say(this.part_.status, "Trying again …");
        break;
      case "error":
        this.fail(message.message);
        break;
    }
  }

  // What was made of an answer stays as it is; the next one begins below it.
  cutOff() {
    this.voice?.classList.add("interrupted");
    this.voice = null;
  }

  // An answer to a turn is on its way.
  answer(turn) {
    this.turn = turn;
    this.begun = this.complete = false;
    this.enable();
    say(this.part_.status, "Thinking …");
  }

  audio(turn, sentence, pcm) {
    if (!this.active || turn !== this.turn) return;
    if (!this.begun) {
      this.begun = true;
      this.arrived = { turn, at: performance.now() };
      this.player.begin(turn);
      say(this.part_.status, "Speaking …");
    }
    this.player.push(turn, sentence, pcm);
  }

  silent() {
    this.turn = null;
    this.voice = null;
    this.enable();
    if (this.active) say(this.part_.status, "Listening: speak now.");
  }

  words(who, text, { partial }) {
    followed(this.part_.text, () => {
      this.said ??= this.bubble(who);
      this.said.lastChild.textContent = text;
    });
    this.said.classList.toggle("partial", partial);
    this.said.ariaLive = partial ? "off" : null; // read out once, when it is settled
  }

  reply(delta) {
    followed(this.part_.text, () => {
      this.voice ??= this.bubble("voice");
      this.voice.lastChild.textContent += delta;
    });
  }

  bubble(who) {
    this.part_.hint.remove();
    const bubble = document.createElement("p");
    bubble.className = `bubble ${who}`;
    const name = document.createElement("b");
    name.textContent = who === "you" ? "You" : "Voice";
    const words = document.createElement("span");
    words.dir = "auto";
    bubble.append(name, words);
    this.part_.text.append(bubble);
    return bubble;
  }

  // The server measures to the moment at which sound goes out to the page; its way to the loudspeaker comes on top.
  started({ utterance, at }) {
    if (this.arrived?.turn === utterance) this.arrived.until_played_ms = at - this.arrived.at;
    if (this.measures?.turn === utterance) this.showWaits(); // they may come before the sound, or after it
  }

  showWaits() {
    const { turn, final_text_ms, first_token_ms, first_sound_ms, total_ms } = this.measures;
    const { waits } = this.part_;
    const played = (wait) => (wait === null ? null : wait + ((this.arrived?.turn === turn && this.arrived.until_played_ms) || 0));
    if (waits.rows[0]?.dataset.turn === String(turn)) waits.deleteRow(0); // its answer was made again
    const row = waits.insertRow(0);
    row.dataset.turn = turn;
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = turn + 1;
    row.append(head);
    for (const wait of [final_text_ms, first_token_ms, played(first_sound_ms), played(total_ms)]) {
      row.insertCell().textContent = milliseconds(wait).replace(" ms", "");
    }
  }

  clear() {
    this.turn = this.said = this.voice = this.measures = this.arrived = null;
    this.part_.text.replaceChildren(this.part_.hint);
    this.part_.waits.replaceChildren();
    say(this.part_.error, "");
  }

  async fail(message) {
    await this.end("Ready.");
    say(this.part_.error, message);
  }

  connection(open) {
    if (!open && this.active) this.fail(GONE);
    else if (open && this.part_.error.textContent === GONE) say(this.part_.error, "");
  }

  enable() {
    this.part_.talk.textContent = this.active ? "End the conversation" : "Start talking";
    this.part_.talk.classList.toggle("recording", this.active);
    this.part_.interrupt.disabled = this.turn === null || this.turn === undefined;
    this.part_.barge.disabled = this.part_.headset.disabled = this.active;
  }
}

customElements.define("voice-talk", VoiceTalk);
