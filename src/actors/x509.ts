import {
  createHash,
  createPrivateKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
  X509Certificate,
} from 'node:crypto';
import { isIP } from 'node:net';
import forge from 'node-forge';

/**
 * X.509 certificates (RFC 5280) on P-256: the root that clients are told to trust, and the leaves it signs.
 *
 * node-forge knows no elliptic curves, so it only encodes the ASN.1; keys and signatures are node:crypto's.
 */

type Asn1 = forge.asn1.Asn1;
const { asn1 } = forge;
const { Class, Type } = asn1;

/**
 * Clocks run behind, the clients' and, where it is set back, the broker's own: what is valid only from this instant on
 * would be refused then. A week, since a clock that is wrong by days is not rare (a machine that slept, a restored image).
 */
export const backdatedMs = 7 * 24 * 3_600_000;
export const leafLifetimeMs = 24 * 3_600_000;
const rootYears = 10;

/** ub-common-name (RFC 5280, appendix A.1). A longer host stands in the subject alternative names only. */
const commonNameMax = 64;

const seq = (...items: Asn1[]) => asn1.create(Class.UNIVERSAL, Type.SEQUENCE, true, items);
const set = (...items: Asn1[]) => asn1.create(Class.UNIVERSAL, Type.SET, true, items);
const primitive = (type: forge.asn1.Type, bytes: string) => asn1.create(Class.UNIVERSAL, type, false, bytes);
const tagged = (tag: number, value: Asn1[] | string) =>
  asn1.create(Class.CONTEXT_SPECIFIC, tag as forge.asn1.Type, typeof value !== 'string', value);
const oid = (dotted: string) => primitive(Type.OID, asn1.oidToDer(dotted).getBytes());
const latin1 = (bytes: Uint8Array) => Buffer.from(bytes).toString('latin1');
const encode = (node: Asn1) => asn1.toDer(node).getBytes();
/** A BIT STRING of whole octets: the first octet says how many bits of the last are unused. */
const bitString = (bytes: string) => primitive(Type.BITSTRING, `\0${bytes}`);

/** ecdsa-with-SHA256: no parameters (RFC 5758, section 3.2). */
const signatureAlgorithm = seq(oid('1.2.840.10045.4.3.2'));
/** id-ecPublicKey on prime256v1 (RFC 5480, section 2.1.1). */
const p256 = seq(oid('1.2.840.10045.2.1'), oid('1.2.840.10045.3.1.7'));
const version3 = tagged(0, [primitive(Type.INTEGER, '\x02')]);

function extension(id: string, critical: boolean, value: Asn1): Asn1 {
  const flag = critical ? [primitive(Type.BOOLEAN, '\xff')] : [];
  return seq(oid(id), ...flag, primitive(Type.OCTETSTRING, encode(value)));
}

const ids = {
  commonName: '2.5.4.3',
  subjectKeyIdentifier: '2.5.29.14',
  keyUsage: '2.5.29.15',
  subjectAltName: '2.5.29.17',
  basicConstraints: '2.5.29.19',
  authorityKeyIdentifier: '2.5.29.35',
  extendedKeyUsage: '2.5.29.37',
  serverAuth: '1.3.6.1.5.5.7.3.1',
} as const;

/** keyUsage is a BIT STRING of named bits: trailing zero bits are counted as unused (X.690, 11.2.2). */
const caUsage = extension(ids.keyUsage, true, primitive(Type.BITSTRING, '\x02\x04'));
const leafUsage = extension(ids.keyUsage, true, primitive(Type.BITSTRING, '\x07\x80'));
const caConstraints = extension(
  ids.basicConstraints,
  true,
  seq(primitive(Type.BOOLEAN, '\xff'), primitive(Type.INTEGER, '\0')),
);
const serverUsage = extension(ids.extendedKeyUsage, false, seq(oid(ids.serverAuth)));

function commonName(name: string): Asn1 {
  const value = primitive(Type.UTF8, latin1(Buffer.from(name, 'utf8')));
  return seq(set(seq(oid(ids.commonName), value)));
}

/** UTCTime through 2049, GeneralizedTime from 2050 on (RFC 5280, 4.1.2.5). */
function time(ms: number): Asn1 {
  const date = new Date(ms);
  return date.getUTCFullYear() < 2050
    ? primitive(Type.UTCTIME, asn1.dateToUtcTime(date))
    : primitive(Type.GENERALIZEDTIME, asn1.dateToGeneralizedTime(date));
}

/** 128 bits, always positive and never with a leading zero octet, which DER would want dropped. */
function serial(random: (size: number) => Uint8Array): Asn1 {
  const bytes = Uint8Array.from(random(16));
  bytes[0] = (bytes[0] & 0x7f) | 0x40;
  return primitive(Type.INTEGER, latin1(bytes));
}

/** Signs a certificate, valid from well before `now`, for the key whose point is given; PEM. */
function certificate(
  signer: { key: KeyObject; subject: Asn1 },
  body: { serial: Asn1; subject: Asn1; now: number; notAfter: number; point: string; extensions: Asn1[] },
): string {
  const tbs = seq(
    version3,
    body.serial,
    signatureAlgorithm,
    signer.subject,
    seq(time(body.now - backdatedMs), time(body.notAfter)),
    body.subject,
    seq(p256, bitString(body.point)),
    tagged(3, [seq(...body.extensions)]),
  );
  const signature = sign('sha256', Buffer.from(encode(tbs), 'latin1'), signer.key);
  const der = encode(seq(tbs, signatureAlgorithm, bitString(latin1(signature))));
  const lines = Buffer.from(der, 'latin1')
    .toString('base64')
    .replace(/.{64}(?=.)/g, '$&\n');
  return `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`;
}

/** The uncompressed point, 0x04 and two coordinates: the last 65 octets of a P-256 key's SPKI (RFC 5480). */
function point(key: KeyObject): string {
  if (key.asymmetricKeyDetails?.namedCurve !== 'prime256v1')
    throw new TypeError('Only P-256 keys are taken.');
  return key.export({ type: 'spki', format: 'der' }).subarray(-65).toString('latin1');
}

/**
 * A new self-signed root: P-256, valid for 10 years, may sign leaves and nothing that signs.
 * @param options.now milliseconds since the epoch.
 * @param options.random source of the serial number's octets, for tests; keys are always random.
 * @throws RangeError where the common name is empty or over 64 characters.
 */
export function createRoot(options: {
  commonName: string;
  now: number;
  random?: (size: number) => Uint8Array;
}): { certPem: string; keyPem: string } {
  const length = [...options.commonName].length;
  if (length === 0 || length > commonNameMax) {
    throw new RangeError(`The common name of a root has 1 to ${commonNameMax} characters, not ${length}.`);
  }
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const publicPoint = point(publicKey);
  // Leftmost 160 bits of SHA-256 over the key's octets (RFC 7093, section 2, method 1).
  const keyId = createHash('sha256').update(publicPoint, 'latin1').digest().subarray(0, 20);
  const notAfter = new Date(options.now);
  notAfter.setUTCFullYear(notAfter.getUTCFullYear() + rootYears);
  const subject = commonName(options.commonName);
  const identifier = extension(ids.subjectKeyIdentifier, false, primitive(Type.OCTETSTRING, latin1(keyId)));
  const certPem = certificate(
    { key: privateKey, subject },
    {
      serial: serial(options.random ?? randomBytes),
      subject,
      now: options.now,
      notAfter: notAfter.getTime(),
      point: publicPoint,
      extensions: [caConstraints, caUsage, identifier],
    },
  );
  return { certPem, keyPem: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string };
}

/** A root that is ready to sign: what all of its leaves have in common is read and encoded once. */
export interface Root {
  readonly key: KeyObject;
  readonly subject: Asn1;
  readonly authorityKeyIdentifier: Asn1;
}

const children = (node: Asn1) => node.value as Asn1[];
const contents = (node: Asn1) => node.value as string;

/**
 * Opens a root for signing.
 * @throws Error where the PEM can't be read, the key isn't the certificate's, or it isn't a root of ours.
 */
export function openRoot(pem: { certPem: string; keyPem: string }): Root {
  const cert = new X509Certificate(pem.certPem);
  const key = createPrivateKey(pem.keyPem);
  if (!cert.checkPrivateKey(key)) {
    throw new Error('The root certificate and its key do not belong together. Restore both from one backup.');
  }
  // TBSCertificate (RFC 5280, section 4.1): the subject is its sixth field, the extensions are its last.
  const tbs = children(children(asn1.fromDer(cert.raw.toString('latin1')))[0]);
  const extensions = children(children(tbs[tbs.length - 1])[0]).map(children);
  const identifier = extensions.find(([id]) => asn1.derToOid(contents(id)) === ids.subjectKeyIdentifier);
  if (!cert.ca || identifier === undefined) {
    throw new Error('The root certificate cannot sign leaves. Make a new root.');
  }
  // The very octets of the root's identifier: clients build the chain by comparing the two.
  const keyId = contents(asn1.fromDer(contents(identifier[identifier.length - 1])));
  return {
    key,
    subject: tbs[5],
    authorityKeyIdentifier: extension(ids.authorityKeyIdentifier, false, seq(tagged(0, keyId))),
  };
}

/** What may stand in a dNSName as it is: the caller has checked the labels. */
const encodableName = /^[a-zA-Z0-9._*-]{1,253}$/;

/** Network octets of a valid address: IPv4 as two groups of 16 bits, IPv6 as eight. */
function addressOctets(ip: string): string {
  const grouped = ip.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_, a, b, c, d) =>
    [(+a << 8) | +b, (+c << 8) | +d].map((group) => group.toString(16)).join(':'),
  );
  const [head, tail] = grouped.split('::').map((side) => (side === '' ? [] : side.split(':')));
  const zeros = tail === undefined ? [] : Array<string>(8 - head.length - tail.length).fill('0');
  const groups = [...head, ...zeros, ...(tail ?? [])];
  return Buffer.from(groups.map((group) => group.padStart(4, '0')).join(''), 'hex').toString('latin1');
}

/** GeneralName (RFC 5280, section 4.2.1.6): `iPAddress` for literals, else `dNSName`. */
function generalName(host: string): Asn1 {
  if (isIP(host) !== 0 && !host.includes('%')) return tagged(7, addressOctets(host));
  if (!encodableName.test(host)) throw new RangeError(`No certificate can name ${JSON.stringify(host)}.`);
  return tagged(2, host);
}

/**
 * A server certificate for one host, PEM, valid from a week ago to 24 hours from now.
 * @param options.host a name, an IPv4 address, or an IPv6 address without brackets.
 * @param options.extraNames further names and addresses, for a listener that is reached by several.
 * @param options.now milliseconds since the epoch.
 * @throws RangeError where a host can't stand in a certificate: empty, too long, or not ASCII.
 */
export function createLeaf(options: {
  root: Root;
  key: KeyObject;
  host: string;
  extraNames?: readonly string[];
  now: number;
}): string {
  const { root, host, now } = options;
  const named = host.length <= commonNameMax;
  const names = [host, ...(options.extraNames ?? [])].map(generalName);
  // With an empty subject the names are the only identity, and must be critical.
  const alternatives = extension(ids.subjectAltName, !named, seq(...names));
  return certificate(root, {
    serial: serial(randomBytes),
    subject: named ? commonName(host) : seq(),
    now,
    notAfter: now + leafLifetimeMs,
    point: point(options.key),
    extensions: [leafUsage, serverUsage, alternatives, root.authorityKeyIdentifier],
  });
}
