import { X509Certificate } from 'node:crypto';
import tls from 'node:tls';

/** A `*` that is a part of a label, or stands behind the first. */
const otherWildcards = /DNS:(?!\*\.)[^,"]*\*[^,"]*/g;

/**
 * Why a certificate is not that of the host; undefined where it is (RFC 9525 6). Only subject alternative names count:
 * `dNSName` for a name, where `*` may be the whole of the left-most label, `iPAddress` for an address. The common name
 * says nothing: it is a text in which a CA may have let anything stand. Never throws.
 *
 * @param host as a certificate has it: an IPv6 address without brackets
 * @param certificate the upstream's own, its chain verified already
 */
export function identityError(
  host: string,
  isAddress: boolean,
  certificate: Pick<tls.PeerCertificate, 'raw' | 'subjectaltname'>,
): Error | undefined {
  try {
    if (!isAddress) {
      // node's own check, shown no subject: it can't fall back on the common name.
      const subjectaltname = certificate.subjectaltname?.replace(otherWildcards, 'DNS:');
      return tls.checkServerIdentity(host, { subjectaltname } as tls.PeerCertificate);
    }
    // node's own check knows no IPv6 address.
    if (new X509Certificate(certificate.raw).checkIP(host) !== undefined) return undefined;
  } catch {
    // Names that can't be read are no names.
  }
  return new Error('the certificate is for others');
}
