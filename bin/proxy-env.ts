/** The variables that a child of `broker vault run` finds its root certificates by: each names the bundle. */
export const caVariables = [
  'SSL_CERT_FILE',
  'NODE_EXTRA_CA_CERTS',
  'REQUESTS_CA_BUNDLE',
  'CURL_CA_BUNDLE',
  'GIT_SSL_CAINFO',
  'DENO_CERT',
  'AWS_CA_BUNDLE',
  'PIP_CERT',
  'CARGO_HTTP_CAINFO',
  'npm_config_cafile',
  'GRPC_DEFAULT_SSL_ROOTS_FILE_PATH',
  // For the TLS connection to the proxy itself, which git verifies apart from the upstream's.
  'GIT_PROXY_SSL_CAINFO',
] as const;

/** Ways past the broker that the parent's environment may hold, in whichever case. */
const inheritedProxies = new Set([
  'http_proxy',
  'https_proxy',
  'all_proxy',
  'ftp_proxy',
  'ws_proxy',
  'wss_proxy',
  'no_proxy',
  'npm_config_proxy',
  'npm_config_http_proxy',
  'npm_config_https_proxy',
  'npm_config_noproxy',
]);

/** What only operators may hold: the child is an agent. */
const operatorSecrets = new Set(['broker_operator_token', 'broker_master_password']);

export interface ProxyEndpoint {
  readonly scheme: 'https' | 'http';
  /** A name or an address; IPv6 with or without brackets. */
  readonly host: string;
  readonly port: number;
  readonly token: string;
  readonly vault: string;
}

/** `https://TOKEN:VAULT@HOST:PORT`: protocol, "Proxy listener". */
export function proxyUrl({ scheme, host, port, token, vault }: ProxyEndpoint): string {
  const authority = host.includes(':') && !host.startsWith('[') ? `[${host}]` : host;
  return `${scheme}://${encodeURIComponent(token)}:${encodeURIComponent(vault)}@${authority}:${port}`;
}

/** The same proxy by another scheme: its port takes both. */
export function withScheme(url: string, scheme: ProxyEndpoint['scheme']): string {
  return url.replace(/^https?:/, `${scheme}:`);
}

/**
 * `localhost,127.0.0.1`, and the broker's host where it is another: calls to the broker must not go through
 * its own proxy, which refuses them.
 */
export function noProxy(brokerAddress: string): string {
  const host = new URL(brokerAddress).hostname;
  if (host === 'localhost' || host === '127.0.0.1') return 'localhost,127.0.0.1';
  // Clients disagree about brackets here: name both forms.
  const forms = host.startsWith('[') ? [host, host.slice(1, -1)] : [host];
  return ['localhost', '127.0.0.1', ...forms].join(',');
}

export interface ChildSession {
  /** Base URL of the broker, for `BROKER_ADDR`. */
  readonly address: string;
  readonly token: string;
  readonly proxyUrl: string;
  /** Path of the CA bundle: the broker's root and the system's. */
  readonly bundle: string;
  /** Folder with the `.curlrc` that names the bundle for the connection to the proxy. */
  readonly curlHome: string;
}

/**
 * The environment of a child of `vault run`: the parent's, without its proxies in either case and without
 * operators' secrets, with all that leads the usual clients through the broker (protocol, "Environment variables").
 */
export function proxyEnv(parent: Readonly<NodeJS.ProcessEnv>, session: ChildSession): Record<string, string> {
  const direct = noProxy(session.address);
  const ours: Record<string, string> = {
    BROKER_ADDR: session.address,
    BROKER_SESSION_TOKEN: session.token,
    HTTPS_PROXY: session.proxyUrl,
    HTTP_PROXY: session.proxyUrl,
    NO_PROXY: direct,
    https_proxy: session.proxyUrl,
    http_proxy: session.proxyUrl,
    no_proxy: direct,
    NODE_USE_ENV_PROXY: '1',
    CURL_HOME: session.curlHome,
    ...Object.fromEntries(caVariables.map((name) => [name, session.bundle])),
  };
  const replaced = new Set(Object.keys(ours).map((name) => name.toLowerCase()));
  const kept = Object.entries(parent).filter((entry): entry is [string, string] => {
    const name = entry[0].toLowerCase();
    return (
      entry[1] !== undefined &&
      !replaced.has(name) &&
      !inheritedProxies.has(name) &&
      !operatorSecrets.has(name)
    );
  });
  return { ...Object.fromEntries(kept), ...ours };
}
