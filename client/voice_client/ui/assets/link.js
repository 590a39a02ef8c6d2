// A WebSocket to the process that serves this page; it comes back by itself.

const HEADER_BYTES = 8;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 5000;

export class Link {
  // onMessage(object), onAudio(utterance, sentence, Int16Array), onState(open)
  constructor(name, { onMessage, onAudio, onState }) {
    const url = new URL(`../live/${name}`, import.meta.url);
    url.protocol = url.protocol.replace("http", "ws");
    this.url = url;
    this.handlers = { onMessage, onAudio, onState };
    this.wait = FIRST_WAIT_MS;
    this.closed = false;
    this.connect();
  }

  connect() {
    this.socket = new WebSocket(this.url);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => {
      this.wait = FIRST_WAIT_MS;
      this.handlers.onState(true);
    };
    this.socket.onmessage = ({ data }) => this.take(data);
    this.socket.onclose = () => {
      if (this.closed) return;
      this.handlers.onState(false);
      this.timer = setTimeout(() => this.connect(), this.wait);
      this.wait = Math.min(LONGEST_WAIT_MS, this.wait * 2);
    };
  }

  take(data) {
    if (typeof data === "string") {
      this.handlers.onMessage(JSON.parse(data));
      return;
    }
    const header = new DataView(data, 0, HEADER_BYTES);
    this.handlers.onAudio?.(header.getUint32(0, true), header.getUint32(4, true), new Int16Array(data, HEADER_BYTES));
  }

  get open() {
    return this.socket.readyState === WebSocket.OPEN;
  }

  // Returns whether it went out.
  send(message) {
    if (this.open) this.socket.send(message instanceof ArrayBuffer ? message : JSON.stringify(message));
    return this.open;
  }

  get waitingBytes() {
    return this.socket.bufferedAmount;
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.socket.close();
  }
}

export const GONE = "The page has lost its server: is `voice ui` still running? It reconnects by itself.";
