import { createHmac, timingSafeEqual } from 'node:crypto';

/**
 * How a server shows that it knows a token, before the token is sent to it: by an HMAC whose key is the token's
 * SHA-256, which is all that the server keeps of it. Bound to where the client connected, so that nobody who holds
 * another port or address can pass the question on to the real one.
 */
export interface ProofQuestion {
  /** The first 16 hex digits of the token's SHA-256: which token is meant. The other 192 bits stay unsaid. */
  readonly token: string;
  /** 32 random bytes of the client's, hex. */
  readonly nonce: string;
  /** Host and port as the client's address of the broker has them. */
  readonly host: string;
  readonly port: number;
  /** IP address that its connection goes to. */
  readonly address: string;
}

/** Hex digits of a token's hash that name it. */
export const tokenNameLength = 16;

/** @param hash SHA-256 of the token, hex */
export function proofOf(hash: string, { nonce, host, port, address }: ProofQuestion): string {
  return createHmac('sha256', Buffer.from(hash, 'hex'))
    .update(`broker server proof v1\n${nonce}\n${host}\n${port}\n${address}`)
    .digest('hex');
}

/** Whether a server's answer proves that it knows the token of this hash. */
export function proves(hash: string, question: ProofQuestion, answer: unknown): boolean {
  if (typeof answer !== 'string' || !/^[0-9a-f]{64}$/.test(answer)) return false;
  return timingSafeEqual(Buffer.from(answer, 'hex'), Buffer.from(proofOf(hash, question), 'hex'));
}
