// mockttp as a proxy that puts the credential in: PORT, directory of the certificates.
// It is copied to where the package is installed.
import { getLocal } from 'mockttp';

const [port, certs] = process.argv.slice(2);
const server = getLocal({
  https: { keyPath: `${certs}/mitm-ca.key`, certPath: `${certs}/mitm-ca.pem` },
  recordTraffic: false,
  http2: false,
});
await server.forUnmatchedRequest().thenPassThrough({
  transformRequest: { updateHeaders: { authorization: 'Bearer SECRET' } },
  additionalTrustedCAs: [{ certPath: `${certs}/upstream-ca.pem` }],
});
await server.start(Number(port));
console.log('ready');
