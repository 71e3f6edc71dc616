import { createHash } from 'node:crypto';
import type { Fields } from './head.ts';

/** Base64 (RFC 6455 4.1). How many octets it stands for is the server's to judge. */
const nonce = /^[A-Za-z0-9+/]{1,86}={0,2}$/;
/** RFC 6455 1.3: what no server that doesn't know the protocol appends. */
const guid = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';

/** The nonce of a client's handshake; null where there is none, more than one, or no valid one. */
export function webSocketKey(head: Fields): string | null {
  const key = only(head, 'sec-websocket-key');
  return key !== null && nonce.test(key) ? key : null;
}

/** Whether an answer of 101 is to the handshake with this nonce (RFC 6455 4.1): else it may be anybody's bytes. */
export function acceptsWebSocket(answer: Fields, key: string): boolean {
  const wanted = createHash('sha1')
    .update(key + guid)
    .digest('base64');
  return only(answer, 'sec-websocket-accept') === wanted;
}

/** The value of a field that stands there once; else null. */
function only({ names, values }: Fields, lower: string): string | null {
  let found: string | null = null;
  for (let i = 0; i < names.length; i++) {
    if (names[i].lower !== lower) continue;
    if (found !== null) return null;
    found = values[i];
  }
  return found;
}
