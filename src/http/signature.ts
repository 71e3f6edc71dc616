import {
  createHmac,
  createPublicKey,
  type KeyObject,
  randomBytes,
  timingSafeEqual,
  verify,
} from 'node:crypto';
import type { Clock } from '../actors/core/clock.ts';
import type { Form } from './form.ts';
import type { Incoming } from './incoming.ts';

/*
 * How a page shows that a form is its own: it signs it with a key that lies in the storage of its origin, port included,
 * where no page of another port gets at it, as it does at cookies. The script of our pages makes the key
 * (ECDSA P-256, not extractable), and asks for a challenge for each form that it sends.
 */

/** The field of a form that holds its signature: key, challenge and signature, with dots between. */
export const signatureField = 'proof.signature';

export interface Signature {
  /** The public key: an uncompressed point (SEC 1 section 2.3.3). */
  readonly key: string;
  readonly challenge: string;
  /** r and s, 64 octets (IEEE P1363). */
  readonly value: string;
}

export interface Signatures {
  /** Something to be signed within two minutes; it is worth nothing by itself. */
  challenge(): string;
  /** Whether the key has signed this very form, for this path, lately. */
  isGood(signature: Signature, incoming: Incoming, form: Form): boolean;
  /** Whether the challenge is new to the key; from now on it isn't. To be asked of a good signature of a known key. */
  use(signature: Signature): boolean;
}

const lifeMs = 2 * 60_000;
/** Forms of one key within that time. More are refused, and so is their signature. */
const maxUsed = 256;

export function createSignatures(clock: Clock): Signatures {
  const secret = randomBytes(32);
  /** By key: challenges, and until when they could be used again. In the order of their use. */
  const used = new Map<string, Map<string, number>>();

  const mac = (text: string) => createHmac('sha256', secret).update(text).digest('hex').slice(0, 32);

  /** Until when a challenge of ours is good; 0: it is over, or not ours. */
  function endOf(challenge: string): number {
    const cut = challenge.lastIndexOf('-');
    const text = challenge.slice(0, cut);
    const end = Number.parseInt(text, 36) + lifeMs;
    return isSame(challenge.slice(cut + 1), mac(text)) && end > clock.monotonic() ? end : 0;
  }

  return {
    challenge() {
      const text = `${Math.floor(clock.monotonic()).toString(36)}-${randomBytes(9).toString('hex')}`;
      return `${text}-${mac(text)}`;
    },
    isGood({ key, challenge, value }, { method, path, query }, form) {
      if (endOf(challenge) === 0) return false;
      const target = query === '' ? path : `${path}?${query}`;
      const text = Buffer.from(signedText(method, target, challenge, form));
      const publicKey = keyOf(key);
      if (publicKey === null) return false;
      const given = Buffer.from(value, 'base64url');
      return verify('sha256', text, { key: publicKey, dsaEncoding: 'ieee-p1363' }, given);
    },
    use({ key, challenge }) {
      const now = clock.monotonic();
      for (const [each, challenges] of used) {
        for (const [old, end] of challenges) if (end <= now) challenges.delete(old);
        if (challenges.size === 0) used.delete(each);
      }
      const mine = used.get(key) ?? new Map<string, number>();
      if (mine.has(challenge) || mine.size >= maxUsed) return false;
      used.set(key, mine.set(challenge, endOf(challenge)));
      return true;
    },
  };
}

/** null: the form has none, or it isn't one. */
export function signatureOf(form: Form): Signature | null {
  const found = /^([\w-]{87})\.([a-z0-9-]{1,80})\.([\w-]{86})$/.exec(form.get(signatureField) ?? '');
  return found && { key: found[1], challenge: found[2], value: found[3] };
}

/**
 * What is signed: all fields but the signature, by name, since browsers may send them in another order than the script saw
 * them, and with the line breaks of a text as LF, since browsers send CR LF. `live.js` writes the same.
 */
export function signedText(method: string, target: string, challenge: string, form: Form): string {
  const fields = [...form]
    .filter(([name]) => name !== signatureField)
    .map(([name, value]) => [name, value.replace(/\r\n?/g, '\n')])
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify(['broker form', method, target, challenge, fields]);
}

/** null: it is no point of the curve. */
function keyOf(key: string): KeyObject | null {
  const point = Buffer.from(key, 'base64url');
  if (point.length !== 65 || point[0] !== 4) return null;
  const [x, y] = [point.subarray(1, 33), point.subarray(33)].map((half) => half.toString('base64url'));
  try {
    return createPublicKey({ key: { kty: 'EC', crv: 'P-256', x, y }, format: 'jwk' });
  } catch {
    return null;
  }
}

function isSame(a: string, b: string): boolean {
  const [one, other] = [Buffer.from(a), Buffer.from(b)];
  return one.length === other.length && timingSafeEqual(one, other);
}
