/** What is read of a ClientHello before the TLS engine sees it. */
export type ClientHello =
  | { readonly kind: 'incomplete' }
  | { readonly kind: 'malformed' }
  /** `serverName`: lower case, no trailing dot; null where the extension is absent. */
  | { readonly kind: 'hello'; readonly serverName: string | null };

/** More than any client sends, post-quantum key shares included: past it the handshake is refused. */
export const maxClientHello = 32 * 1024;
/** Records that a ClientHello may be spread over. Some clients split it in a few; a record a byte is an attack. */
const maxRecords = 64;

const incomplete = { kind: 'incomplete' } as const;
const malformed = { kind: 'malformed' } as const;

/**
 * Reads the server name out of the first TLS records (RFC 8446 4.1.2, RFC 6066 3), so that a handshake for
 * another host than the CONNECT authority is refused with the alert that says so, before any key is used.
 */
export function readClientHello(bytes: Buffer): ClientHello {
  const parts: Buffer[] = [];
  let have = 0;
  let need = 4;
  let at = 0;
  // The handshake message may be split over several records.
  while (have < need) {
    if (bytes.length < at + 5) return incomplete;
    if (bytes[at] !== 0x16 || bytes[at + 1] !== 3) return malformed;
    const length = bytes.readUInt16BE(at + 3);
    if (length === 0 || length > 16384 + 256) return malformed;
    if (bytes.length < at + 5 + length) {
      if (bytes.length > maxClientHello) return malformed;
      return incomplete;
    }
    if (parts.length === maxRecords) return malformed;
    parts.push(bytes.subarray(at + 5, at + 5 + length));
    have += length;
    at += 5 + length;
    if (need === 4 && have >= 4) {
      const head = parts.length === 1 ? parts[0] : Buffer.concat(parts);
      if (head[0] !== 1) return malformed;
      need = 4 + head.readUIntBE(1, 3);
      if (need > maxClientHello) return malformed;
    }
  }
  const message = parts.length === 1 ? parts[0] : Buffer.concat(parts);
  try {
    return { kind: 'hello', serverName: serverNameOf(message.subarray(4, need)) };
  } catch {
    // Any read past the end: the lengths in it do not add up.
    return malformed;
  }
}

/** @throws RangeError where a length points past the end, or a name is not one */
function serverNameOf(hello: Buffer): string | null {
  let at = 34;
  at += 1 + hello.readUInt8(at);
  at += 2 + hello.readUInt16BE(at);
  at += 1 + hello.readUInt8(at);
  if (at === hello.length) return null;
  const end = at + 2 + hello.readUInt16BE(at);
  at += 2;
  while (at < end) {
    const type = hello.readUInt16BE(at);
    const length = hello.readUInt16BE(at + 2);
    at += 4;
    if (type === 0) {
      if (hello.readUInt8(at + 2) !== 0) throw new RangeError('name type');
      const size = hello.readUInt16BE(at + 3);
      if (size === 0 || size + 5 !== length || hello.readUInt16BE(at) !== size + 3)
        throw new RangeError('name');
      hello.readUInt8(at + 4 + size);
      const name = hello.latin1Slice(at + 5, at + 5 + size).toLowerCase();
      return name.endsWith('.') ? name.slice(0, -1) : name;
    }
    at += length;
  }
  return null;
}

/** A fatal alert `unrecognized_name` (112), as the record that goes out in the clear. */
export const unrecognizedName: Buffer = Buffer.from([0x15, 3, 3, 0, 2, 2, 112]);
