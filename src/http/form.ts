import { type Result, refuse } from '../actors/vault/problem.ts';
import type { Incoming } from './incoming.ts';

/** The fields of a form: each once, since two of a name could be taken for one or the other. */
export type Form = ReadonlyMap<string, string>;

/** Octets: more than any form of ours has, values of credentials apart. */
const defaultLimit = 64 * 1024;

/**
 * Reads a form as browsers send it (`application/x-www-form-urlencoded`, WHATWG URL section 5).
 * @param limit octets
 */
export async function readForm(incoming: Incoming, limit = defaultLimit): Promise<Result<Form>> {
  const bytes = await incoming.body(limit);
  if (bytes === null)
    return refuse('payload_too_large', `The form is larger than ${limit} octets. Send less.`);
  if (!isForm(incoming)) {
    return refuse(
      'unsupported_media_type',
      'Send the form as Content-Type: application/x-www-form-urlencoded.',
    );
  }
  const form = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(Buffer.from(bytes).toString('utf8'))) {
    if (form.has(name)) return refuse('invalid_request', 'A field of the form is there twice. Send it once.');
    form.set(name, value);
  }
  return { ok: true, value: form };
}

function isForm(incoming: Incoming): boolean {
  const types = incoming.values('content-type');
  return (
    types.length === 1 &&
    /^application\/x-www-form-urlencoded\s*(?:;\s*charset="?utf-8"?\s*)?$/i.test(types[0])
  );
}
