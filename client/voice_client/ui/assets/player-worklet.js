// Plays PCM as it arrives, sample by sample as it is: no resampling, no gain. Runs on the audio thread.
//
// In: begin {utterance}, audio {utterance, sentence, samples}, restart {utterance, sentence}, end {utterance}, stop.
// Out: started {utterance, time}, position {utterance, played, held, gaps}, ended {utterance}, silent {utterance, played}.

const FADE_SAMPLES = 64; // 2.7 ms at 24 kHz: a voice that is cut off in the middle of a wave would click
const REPORT_EVERY = 1200; // samples: 50 ms

class VoicePlayer extends AudioWorkletProcessor {
  constructor() {
    super();
    this.reset(null);
    this.port.onmessage = ({ data }) => this.take(data);
  }

  reset(utterance) {
    this.utterance = utterance;
    this.queue = [];
    this.offset = 0; // samples of the first piece that were played
    this.held = 0;
    this.played = 0;
    this.gaps = 0;
    this.started = false;
    this.dry = false;
    this.complete = false;
    this.reported = 0;
  }

  take(message) {
    switch (message.type) {
      case "begin":
        this.reset(message.utterance);
        break;
      case "audio":
        if (message.utterance === this.utterance && message.samples.length) {
          this.queue.push(message);
          this.held += message.samples.length;
        }
        break;
      case "restart":
        if (message.utterance === this.utterance) this.drop(message.sentence);
        break;
      case "end":
        if (message.utterance === this.utterance) this.complete = true;
        break;
      case "stop":
        this.stopping = this.utterance !== null;
        break;
    }
  }

  // The audio of a sentence is void: it comes again from its start.
  drop(sentence) {
    const first = this.queue[0];
    this.queue = this.queue.filter((piece) => piece.sentence !== sentence);
    if (first !== this.queue[0]) this.offset = 0;
    this.held = this.queue.reduce((sum, piece) => sum + piece.samples.length, 0) - this.offset;
  }

  process(_inputs, outputs) {
    const out = outputs[0][0];
    if (this.utterance === null) return true;
    const filled = this.fill(out);
    if (this.stopping) {
      this.fadeOut(out, filled);
      this.port.postMessage({ type: "silent", utterance: this.utterance, played: this.played });
      this.stopping = false;
      this.reset(null);
      return true;
    }
    if (filled && !this.started) {
      this.started = true;
      this.port.postMessage({ type: "started", utterance: this.utterance, time: currentTime });
    }
    if (this.started && !this.complete) {
      const dry = filled < out.length;
      if (dry && !this.dry) this.gaps += 1;
      this.dry = dry;
    }
    if (this.played - this.reported >= REPORT_EVERY || (this.complete && !this.held)) {
      this.reported = this.played;
      const { utterance, played, held, gaps } = this;
      this.port.postMessage({ type: "position", utterance, played, held, gaps });
    }
    if (this.complete && !this.held) {
      this.port.postMessage({ type: "ended", utterance: this.utterance, gaps: this.gaps });
      this.utterance = null;
    }
    return true;
  }

  fill(out) {
    let filled = 0;
    while (filled < out.length && this.queue.length) {
      const { samples } = this.queue[0];
      const count = Math.min(out.length - filled, samples.length - this.offset);
      out.set(samples.subarray(this.offset, this.offset + count), filled);
      filled += count;
      this.offset += count;
      if (this.offset === samples.length) {
        this.queue.shift();
        this.offset = 0;
      }
    }
    this.held -= filled;
    this.played += filled;
    return filled;
  }

  fadeOut(out, filled) {
    const fade = Math.min(FADE_SAMPLES, filled);
    for (let i = 0; i < fade; i += 1) out[i] *= 1 - i / fade;
    out.fill(0, fade);
  }
}

registerProcessor("voice-player", VoicePlayer);
