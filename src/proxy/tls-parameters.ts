import tls from 'node:tls';

/** `http/1.1` as it stands in the ALPN extension (RFC 7301 3.1): made once, not for each handshake. */
export const alpnHttp1: Buffer = Buffer.from('\u0008http/1.1', 'latin1');

const aes128 = 'TLS_AES_128_GCM_SHA256';

/**
 * Node's suites, with that one first which every implementation of TLS 1.3 has to have (RFC 8446 9.1): its hash is
 * computed by the processor's own instructions, and a handshake is hashing for the most part once its session is
 * resumed.
 */
export const ciphers = [aes128, ...tls.DEFAULT_CIPHERS.split(':').filter((name) => name !== aes128)].join(
  ':',
);
