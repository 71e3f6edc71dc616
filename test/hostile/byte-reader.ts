import type net from 'node:net';

/** Reads one side of a connection in pieces of its own choice. It ends where the connection does. */
export class ByteReader {
  readonly socket: net.Socket;
  #pieces: Buffer[] = [];
  #length = 0;
  #ended = false;
  #wake: (() => void) | null = null;
  /** All that has come since this was emptied. */
  readonly transcript: Buffer[] = [];

  constructor(socket: net.Socket) {
    this.socket = socket;
    socket.on('data', (piece: Buffer) => {
      this.#pieces.push(piece);
      this.#length += piece.length;
      this.transcript.push(piece);
      this.#wake?.();
    });
    const end = () => {
      this.#ended = true;
      this.#wake?.();
    };
    socket.on('end', end).on('close', end).on('error', end);
  }

  get ended(): boolean {
    return this.#ended && this.#length === 0;
  }

  /** Up to and including `mark`; null: the end came before. */
  async through(mark: string): Promise<Buffer | null> {
    for (let from = 0; ; ) {
      const bytes = this.#bytes();
      const at = bytes.indexOf(mark, from, 'latin1');
      if (at >= 0) return this.#take(at + mark.length);
      from = Math.max(0, bytes.length - mark.length + 1);
      if (!(await this.#more())) return null;
    }
  }

  /** Waits until there is something to read, or never will be. */
  async some(): Promise<void> {
    while (this.#length === 0 && (await this.#more()));
  }

  /** So many bytes; null: the end came before. */
  async exactly(count: number): Promise<Buffer | null> {
    while (this.#length < count) if (!(await this.#more())) return null;
    return this.#take(count);
  }

  /** All up to the end. */
  async rest(): Promise<Buffer> {
    while (await this.#more());
    return this.#take(this.#length);
  }

  /** false: no more will come. */
  async #more(): Promise<boolean> {
    if (this.#ended) return false;
    const before = this.#length;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    this.#wake = null;
    return this.#length > before || !this.#ended;
  }

  #bytes(): Buffer {
    if (this.#pieces.length !== 1) this.#pieces = [Buffer.concat(this.#pieces)];
    return this.#pieces[0];
  }

  #take(count: number): Buffer {
    const bytes = this.#bytes();
    this.#pieces = count === bytes.length ? [] : [bytes.subarray(count)];
    this.#length -= count;
    return bytes.subarray(0, count);
  }
}
