// Hands the microphone's samples on in blocks of 20 ms, interleaved as they are, with their level. On the audio thread.

const BLOCK_SECONDS = 0.02;

class VoiceMicrophone extends AudioWorkletProcessor {
  constructor({ processorOptions }) {
    super();
    this.channels = processorOptions.channels;
    this.block = new Float32Array(Math.round(sampleRate * BLOCK_SECONDS) * this.channels);
    this.filled = 0;
    this.open = true;
    this.port.onmessage = () => {
      this.post();
      this.port.postMessage({ type: "flushed" });
      this.open = false;
    };
  }

  process([input]) {
    if (!this.open) return false;
    const frames = input[0]?.length ?? 0;
    for (let frame = 0; frame < frames; frame += 1) {
      for (let channel = 0; channel < this.channels; channel += 1) {
        this.block[this.filled] = (input[channel] ?? input[0])[frame];
        this.filled += 1;
      }
      if (this.filled === this.block.length) this.post();
    }
    return true;
  }

  post() {
    if (!this.filled) return;
    const samples = this.block.slice(0, this.filled);
    this.filled = 0;
    let sum = 0;
    for (const sample of samples) sum += sample * sample;
    const level = 10 * Math.log10(sum / samples.length + 1e-10); // dBFS
    this.port.postMessage({ type: "sound", samples, level }, [samples.buffer]);
  }
}

registerProcessor("voice-microphone", VoiceMicrophone);
