/** What the script of our pages does with the key of its origin, without a browser. */
import { generateKeyPairSync, sign } from 'node:crypto';

type Fields = Readonly<Record<string, string>>;

export interface OriginKey {
  /** The public half, as a session is bound to it. */
  readonly key: string;
  /** The field of a form that signs the others. */
  sign(path: string, challenge: string, fields: Fields): { 'proof.signature': string };
}

export function originKey(): OriginKey {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const { x = '', y = '' } = publicKey.export({ format: 'jwk' });
  const point = [Buffer.of(4), Buffer.from(x, 'base64url'), Buffer.from(y, 'base64url')];
  const key = Buffer.concat(point).toString('base64url');
  return {
    key,
    sign(path, challenge, fields) {
      const signed = Object.entries(fields)
        .map(([name, value]) => [name, value.replace(/\r\n?/g, '\n')])
        .sort(([a], [b]) => (a < b ? -1 : 1));
      const text = Buffer.from(JSON.stringify(['broker form', 'POST', path, challenge, signed]));
      const value = sign('sha256', text, { key: privateKey, dsaEncoding: 'ieee-p1363' });
      return { 'proof.signature': `${key}.${challenge}.${value.toString('base64url')}` };
    },
  };
}
