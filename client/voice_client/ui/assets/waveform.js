// A waveform that grows while audio comes in, and shows how far it was played.

import { RATE } from "./player.js";

const PEAK_SAMPLES = 240; // 10 ms

export class Waveform {
  constructor(canvas) {
    this.canvas = canvas;
    this.clear();
    this.resize = new ResizeObserver(() => this.ask());
    this.resize.observe(canvas);
    this.theme = new MutationObserver(() => this.ask());
    this.theme.observe(document.body, { attributes: true, attributeFilter: ["class"] });
  }

  clear() {
    this.peaks = [];
    this.rest = 0;
    this.samples = 0;
    this.played = 0;
    this.ask();
  }

  // All of the audio from its start, as a list of Int16Arrays (after a sentence came again).
  replace(pieces) {
    const { played } = this;
    this.clear();
    pieces.forEach((piece) => this.add(piece));
    this.played = played;
  }

  add(pcm) {
    for (const sample of pcm) {
      if (this.samples % PEAK_SAMPLES === 0) this.peaks.push(0);
      const level = Math.abs(sample) / 32768;
      const last = this.peaks.length - 1;
      if (level > this.peaks[last]) this.peaks[last] = level;
      this.samples += 1;
    }
    this.ask();
  }

  playedTo(sample) {
    this.played = sample;
    this.ask();
  }

  ask() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.draw();
    });
  }

  draw() {
    const { canvas } = this;
    const ratio = window.devicePixelRatio || 1;
    const width = Math.round(canvas.clientWidth * ratio);
    const height = Math.round(canvas.clientHeight * ratio);
    if (!width || !height) return;
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const style = getComputedStyle(canvas);
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, width, height);
    const bar = Math.max(2, Math.round(2 * ratio));
    const bars = Math.floor(width / (bar * 1.5));
    // Up to five seconds keep their scale; from then on all of it is drawn into the width.
    const perBar = Math.max(500, this.peaks.length) / bars;
    const playedBars = this.played / PEAK_SAMPLES / perBar;
    for (let i = 0; i < bars; i += 1) {
      const from = Math.floor(i * perBar);
      if (from >= this.peaks.length) break;
      let level = 0;
      for (let at = from; at < Math.min(this.peaks.length, Math.max(from + 1, (i + 1) * perBar)); at += 1) {
        level = Math.max(level, this.peaks[at]);
      }
      const tall = Math.max(bar, level * height * 0.94);
      context.fillStyle = style.getPropertyValue(i < playedBars ? "--wave-played" : "--wave");
      context.beginPath();
      context.roundRect(i * bar * 1.5, (height - tall) / 2, bar, tall, bar / 2);
      context.fill();
    }
  }

  get seconds() {
    return this.samples / RATE;
  }

  close() {
    this.resize.disconnect();
    this.theme.disconnect();
  }
}
