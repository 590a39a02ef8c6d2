// The loudspeaker: hands PCM16 of 24 kHz to the audio thread and tells how far it is.

export const RATE = 24_000;
const WORKLET = new URL("./player-worklet.js", import.meta.url);

export class Player extends EventTarget {
  constructor() {
    super();
    this.context = null;
    this.node = null;
    this.loading = null;
    this.utterance = null;
  }

  // Make the audio context ready. Called early, so that a click need not wait for it; browsers let it sound only
  // after a gesture of the user, when it is called again.
  async prepare() {
    if (!this.context) {
      // The smallest buffer that the device has: half the delay of "interactive", and the worklet only copies samples.
      this.context = new AudioContext({ sampleRate: RATE, latencyHint: 0 });
      this.loading = this.context.audioWorklet.addModule(WORKLET).then(() => {
        this.node = new AudioWorkletNode(this.context, "voice-player", {
          numberOfInputs: 0,
          outputChannelCount: [1],
        });
        this.node.port.onmessage = ({ data }) => this.heard(data);
        this.node.connect(this.context.destination);
      });
    }
    if (navigator.userActivation?.hasBeenActive ?? true) this.context.resume();
    try {
      await this.loading;
    } catch (error) {
      this.close(); // the next time begins anew
      throw error;
    }
  }

  begin(utterance) {
    this.utterance = utterance;
    this.context.resume();
    this.node.port.postMessage({ type: "begin", utterance });
  }

  // pcm: Int16Array.
  push(utterance, sentence, pcm) {
    if (utterance !== this.utterance) return;
    const samples = new Float32Array(pcm.length);
    for (let i = 0; i < pcm.length; i += 1) samples[i] = pcm[i] / 32768;
    this.node.port.postMessage({ type: "audio", utterance, sentence, samples }, [samples.buffer]);
  }

  restart(utterance, sentence) {
    this.node?.port.postMessage({ type: "restart", utterance, sentence });
  }

  end(utterance) {
    this.node?.port.postMessage({ type: "end", utterance });
  }

  stop() {
    this.utterance = null;
    this.node?.port.postMessage({ type: "stop" });
  }

  close() {
    this.context?.close();
    this.context = this.node = this.loading = null;
  }

  heard(data) {
    if (data.type === "started") data.at = this.performanceTime(data.time);
    this.dispatchEvent(new CustomEvent(data.type, { detail: data }));
  }

  // When a moment of the context's clock is at the loudspeaker, on the clock of performance.now() and event.timeStamp.
  performanceTime(contextTime) {
    const stamp = this.context.getOutputTimestamp?.();
    if (!stamp?.performanceTime) return performance.now();
    return stamp.performanceTime + (contextTime - stamp.contextTime) * 1000;
  }
}
