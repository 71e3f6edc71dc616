/** Collects the body of one request. */
export interface BodyReader {
  /** `chunk` is copied: its memory is taken back when this returns. */
  add(chunk: ArrayBuffer, isLast: boolean): void;
  /** The whole body once it is there; null as soon as it is larger than `limit` octets, or discarded. */
  read(limit: number): Promise<Uint8Array | null>;
  /** Lets go of what is there and of all that comes. */
  discard(): void;
}

/** @param most octets that are kept before anyone has said how many are wanted */
export function createBodyReader(most: number): BodyReader {
  let chunks: Uint8Array[] = [];
  let size = 0;
  let isWhole = false;
  let isDiscarded = false;
  let reader: { readonly limit: number; resolve(body: Uint8Array | null): void } | null = null;

  function settle(): void {
    if (reader === null) return;
    if (isDiscarded || size > reader.limit) reader.resolve(null);
    else if (isWhole) reader.resolve(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks));
    else return;
    reader = null;
    chunks = [];
  }

  return {
    add(chunk, isLast) {
      if (isDiscarded) return;
      size += chunk.byteLength;
      if (size <= most) chunks.push(new Uint8Array(chunk.slice(0)));
      else chunks = [];
      isWhole = isLast;
      settle();
    },
    read(limit) {
      return new Promise((resolve) => {
        reader = { limit: Math.min(limit, most), resolve };
        settle();
      });
    },
    discard() {
      isDiscarded = true;
      chunks = [];
      settle();
    },
  };
}
