// The microphone at whatever rate and number of channels the browser gives it.

const WORKLET = new URL("./microphone-worklet.js", import.meta.url);
export const LOST = "The microphone is gone: connect it again, then start anew.";
const FLUSH_MS = 500; // a worklet that does not answer in this time has nothing left to say

export class Microphone {
  constructor({ onSound, onLevel, onLost }) {
    this.onSound = onSound;
    this.onLevel = onLevel;
    this.onLost = onLost;
  }

  // Ask for the microphone; returns {rate, channels}, or null when `stop` came while the browser was asking. Sound comes
  // once `open` was called.
  // What the browser does to the sound for the ear of a human is left out; only its own echo is taken out where the
  // page speaks itself.
  async start({ echoCancellation }) {
    if (!navigator.mediaDevices?.getUserMedia) {
      throw new Error("The browser gives the microphone to pages on this machine (127.0.0.1) and to https pages only.");
    }
    try {
      this.stream = await navigator.mediaDevices.getUserMedia({
        audio: { echoCancellation, noiseSuppression: false, autoGainControl: false },
      });
    } catch (error) {
      throw new Error(explained(error));
    }
    if (this.stopped) return this.stop();
    const track = this.stream.getAudioTracks()[0];
    track.addEventListener("ended", () => this.onLost?.());
    const channels = Math.min(2, track.getSettings().channelCount ?? 1);
    this.context = new AudioContext({ latencyHint: "interactive" });
    await Promise.all([this.context.resume(), this.context.audioWorklet.addModule(WORKLET)]);
    if (this.stopped) return this.stop();
    this.node = new AudioWorkletNode(this.context, "voice-microphone", {
      numberOfOutputs: 0,
      channelCount: channels,
      channelCountMode: "explicit",
      processorOptions: { channels },
    });
    return { rate: this.context.sampleRate, channels };
  }

  open() {
    this.node.port.onmessage = ({ data }) => {
      if (data.type === "flushed") this.flushed?.();
      else {
        this.onSound(data.samples);
        this.onLevel?.(data.level);
      }
    };
    this.context.createMediaStreamSource(this.stream).connect(this.node);
  }

  // Stop recording, at whatever point it is; everything recorded until now has been handed on when this returns.
  async stop() {
    this.stopped = true;
    if (this.node) {
      await new Promise((resolve) => {
        this.flushed = resolve;
        setTimeout(resolve, FLUSH_MS);
        this.node.port.postMessage("flush");
      });
    }
    this.stream?.getTracks().forEach((track) => track.stop());
    const { context } = this;
    this.stream = this.context = this.node = null;
    if (context && context.state !== "closed") await context.close();
    return null;
  }
}

function explained(error) {
  switch (error.name) {
    case "NotAllowedError":
      return "The browser may not use the microphone: allow it for this page (in the address bar), then try again.";
    case "NotFoundError":
      return "There is no microphone: connect one, then try again.";
    case "NotReadableError":
      return "The microphone cannot be opened: another program may be using it.";
    default:
      return `The microphone cannot be used: ${error.message}`;
  }
}
