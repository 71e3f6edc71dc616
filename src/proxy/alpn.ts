/** `http/1.1` as it stands in the ALPN extension (RFC 7301 3.1): made once, not for each handshake. */
export const alpnHttp1: Buffer = Buffer.from('\u0008http/1.1', 'latin1');
