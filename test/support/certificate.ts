import { generateKeyPairSync, sign } from 'node:crypto';
import type { Authority, Certificate } from './upstream.ts';

/*
 * Certificates that no CA of ours would make, in DER by hand (X.690, RFC 5280 4.1).
 */

const tlv = (tag: number, ...parts: (Buffer | string)[]): Buffer => {
  const content = Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part)));
  const { length } = content;
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
};
const sequence = (...parts: Buffer[]) => tlv(0x30, ...parts);
const bits = (bytes: Buffer) => tlv(0x03, Buffer.concat([Buffer.from([0]), bytes]));
const ecdsaWithSha256 = sequence(tlv(0x06, Buffer.from('2a8648ce3d040302', 'hex')));
const named = (commonName: string) =>
  sequence(tlv(0x31, sequence(tlv(0x06, Buffer.from('550403', 'hex')), tlv(0x0c, commonName))));
const utc = (ms: number) => tlv(0x17, `${new Date(ms).toISOString().replace(/[-:T]/g, '').slice(2, 14)}Z`);

/**
 * A server certificate whose subject names `commonName`, with these subject alternative names or none.
 * @param issuer the common name of `authority`
 * @param alternatives tag of the GeneralName (1: mail, 2: DNS, 7: address) and its octets
 */
export function oddCertificate(
  authority: Authority,
  issuer: string,
  commonName: string,
  alternatives: readonly (readonly [tag: number, value: Buffer | string])[] = [],
): Certificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const names = sequence(...alternatives.map(([tag, value]) => tlv(0x80 | tag, value)));
  const extension = sequence(tlv(0x06, Buffer.from('551d11', 'hex')), tlv(0x04, names));
  const now = Date.now();
  const body = sequence(
    tlv(0xa0, tlv(0x02, Buffer.from([2]))),
    tlv(0x02, Buffer.from([1, 2, 3])),
    ecdsaWithSha256,
    named(issuer),
    sequence(utc(now - 60_000), utc(now + 3_600_000)),
    named(commonName),
    publicKey.export({ type: 'spki', format: 'der' }),
    ...(alternatives.length === 0 ? [] : [tlv(0xa3, sequence(extension))]),
  );
  const signature = sign('sha256', body, authority.keyPem);
  const der = sequence(body, ecdsaWithSha256, bits(signature)).toString('base64');
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${der.replace(/.{64}(?=.)/g, '$&\n')}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
  };
}
