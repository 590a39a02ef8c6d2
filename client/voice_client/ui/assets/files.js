// Files that are made in the page and saved by the browser.

import { RATE } from "./player.js";

export function save(name, type, ...parts) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(parts, { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// pieces: Int16Arrays of mono audio.
export function saveWav(name, pieces) {
  const bytes = pieces.reduce((sum, piece) => sum + piece.byteLength, 0);
  const header = new DataView(new ArrayBuffer(44));
  const text = (at, letters) => [...letters].forEach((letter, i) => header.setUint8(at + i, letter.charCodeAt(0)));
  text(0, "RIFF");
  header.setUint32(4, 36 + bytes, true);
  text(8, "WAVEfmt ");
  header.setUint32(16, 16, true); // length of the format
  header.setUint16(20, 1, true); // PCM
  header.setUint16(22, 1, true); // channels
  header.setUint32(24, RATE, true);
  header.setUint32(28, RATE * 2, true); // bytes per second
  header.setUint16(32, 2, true); // bytes per sample of all channels
  header.setUint16(34, 16, true); // bits
  text(36, "data");
  header.setUint32(40, bytes, true);
  save(name, "audio/wav", header.buffer, ...pieces);
}

export function stamp() {
  const now = new Date();
  const two = (number) => String(number).padStart(2, "0");
  const day = `${now.getFullYear()}${two(now.getMonth() + 1)}${two(now.getDate())}`;
  return `${day}-${two(now.getHours())}${two(now.getMinutes())}${two(now.getSeconds())}`;
}
