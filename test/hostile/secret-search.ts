/** Pieces of a value that are looked for: who has two thirds of it has one of them whole. */
const pieces = 3;
const longest = 24;

/**
 * Looks for values in what an agent received, in a way of its own: undoes each coding of the bytes, where the proxy
 * knows the forms of a value.
 */
export class SecretSearch {
  /** Of the first four bytes of a piece: whether there may be one. */
  readonly #maybe = new Uint8Array(65_536);
  readonly #pieces = new Map<number, { piece: Buffer; name: string }[]>();

  /** @param values by what they are called */
  constructor(values: Iterable<readonly [name: string, value: string]>) {
    for (const [name, value] of values) {
      const bytes = Buffer.from(value, 'latin1');
      const size = Math.min(longest, Math.floor(bytes.length / pieces));
      const step = Math.floor((bytes.length - size) / (pieces - 1));
      for (let at = 0; at + size <= bytes.length; at += step) this.#add(bytes.subarray(at, at + size), name);
    }
  }

  #add(piece: Buffer, name: string): void {
    const word = piece.readInt32BE(0);
    this.#maybe[slot(word)] = 1;
    this.#pieces.set(word, [...(this.#pieces.get(word) ?? []), { piece, name }]);
  }

  /** Names of the values that these bytes hold, in whatever form. */
  in(bytes: Buffer): Set<string> {
    const found = new Set<string>();
    for (const reading of readings(bytes)) this.#lookIn(reading, found);
    return found;
  }

  #lookIn(bytes: Buffer, found: Set<string>): void {
    let word = 0;
    for (let i = 0; i < bytes.length; i++) {
      word = (word << 8) | bytes[i];
      if (this.#maybe[slot(word)] === 0) continue;
      for (const { piece, name } of this.#pieces.get(word) ?? [])
        if (piece.equals(bytes.subarray(i - 3, i - 3 + piece.length))) found.add(name);
    }
  }
}

const slot = (word: number): number => (word ^ (word >>> 16)) & 0xffff;

const shortEscapes: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };
const unpercented = (text: string): string =>
  text.replace(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
const unescaped = (text: string): string =>
  text.replace(/\\(?:u00([0-9a-f]{2})|(["\\/bfnrt]))/gi, (_, hex, letter) =>
    hex === undefined ? (shortEscapes[letter] ?? letter) : String.fromCharCode(Number.parseInt(hex, 16)),
  );

/** The bytes, and what they are with each coding undone. */
function* readings(bytes: Buffer): Generator<Buffer> {
  yield bytes;
  const text = bytes.latin1Slice();
  const latin1 = (made: string) => Buffer.from(made, 'latin1');
  if (text.includes('%')) {
    yield latin1(unpercented(text));
    yield latin1(unpercented(text.replaceAll('+', ' ')));
  }
  if (text.includes('\\')) {
    yield latin1(unescaped(text));
    if (text.includes('%')) yield latin1(unpercented(unescaped(text)));
  }
  for (const [run] of text.matchAll(/[0-9a-f]{16,}/gi)) {
    yield Buffer.from(run, 'hex');
    yield Buffer.from(run.slice(1), 'hex');
  }
  for (const [run] of text.matchAll(/[\w+/-]{12,}/g))
    for (let from = 0; from < 4; from++) yield Buffer.from(run.slice(from), 'base64');
}
