// http-mitm-proxy with the credential put in: PORT, directory of the certificates, directory for its own.
// It is copied to where the package is installed. It makes its own CA: certs/ca.pem in its directory.
import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { Proxy as MitmProxy } from 'http-mitm-proxy';

const [port, certs, directory] = process.argv.slice(2);
const proxy = new MitmProxy();
proxy.onError(() => {});
proxy.onRequest((context, next) => {
  context.proxyToServerRequestOptions.headers.authorization = 'Bearer SECRET';
  next();
});
proxy.listen(
  {
    host: '127.0.0.1',
    port: Number(port),
    sslCaDir: directory,
    keepAlive: true,
    httpAgent: new http.Agent({ keepAlive: true }),
    httpsAgent: new https.Agent({ keepAlive: true, ca: readFileSync(`${certs}/upstream-ca.pem`) }),
  },
  () => console.log('ready'),
);
