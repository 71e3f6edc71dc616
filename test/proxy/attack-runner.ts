import { readdirSync } from 'node:fs';
import { platform } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type tls from 'node:tls';
import * as nodeTls from 'node:tls';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Test } from 'tap';
import {
  openProxy,
  openTunnel,
  proxyAuth,
  startLane,
  type TestLane,
  type TestLaneOptions,
} from '../support/lane.ts';
import { rawUpstream, type TestUpstream, type UpstreamOptions, upstreamCa } from '../support/upstream.ts';
import {
  type Answer,
  eventually,
  type Message,
  nextAnswer,
  nextRequest,
  type Wire,
  wireOf,
} from '../support/wire.ts';

/** Where upstreams are: the one address that the guard lets through, and none that an attack names. */
export const openAddress = '127.0.0.2';

/** Values that only the upstream of their service may ever see, by its host (as TLS names it) or pattern. */
const secrets: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'api.good.test': { S_GOOD: 'sk_live_good_7Qx/+9z' },
  'echo.good.test': { S_ECHO: 'sk_live_echo_3Wm/+8y' },
  '*.wild.test': { S_WILD: 'sk_live_wild_5Tr/+7x' },
  'basic.test': { S_USER: 'basic-user-6Yu', S_PASS: 'basic-pass_4Ko/+6w' },
  'custom.test': { S_CUSTOM: 'sk_live_custom_2Zb' },
  'sub.test': { S_ACCT: 'AC_live/acct?9Lp', S_HDR: 'hdr_live_8Ng' },
  'xn--mnchen-3ya.test': { S_IDN: 'sk_live_idn_1Fd' },
};

const bearer = (token: string) => ({ type: 'bearer' as const, token });
const services = [
  { host: 'api.good.test', auth: bearer('S_GOOD') },
  { host: 'echo.good.test', auth: bearer('S_ECHO') },
  { host: '*.wild.test', auth: { type: 'api-key' as const, key: 'S_WILD', header: 'X-Api-Key' } },
  { host: 'basic.test', auth: { type: 'basic' as const, username: 'S_USER', password: 'S_PASS' } },
  { host: 'custom.test', auth: { type: 'custom' as const, headers: { 'X-Custom': 'v {{ S_CUSTOM }}' } } },
  {
    host: 'sub.test',
    auth: { type: 'passthrough' as const },
    substitutions: [
      { key: 'S_ACCT', placeholder: '__acct__' },
      { key: 'S_HDR', placeholder: '__hdr__', in: ['header' as const] },
    ],
  },
  { host: 'pass.test', auth: { type: 'passthrough' as const } },
  { host: 'off.test', auth: bearer('S_GOOD'), enabled: false as const },
  { host: 'xn--mnchen-3ya.test', auth: bearer('S_IDN') },
];
const vault = {
  services,
  credentials: Object.assign({}, ...Object.values(secrets)) as Record<string, string>,
};

/** What only the normal request after each attack asks for. */
const controlPath = '/control-after-an-attack';
/** What certificates, compiled code and the test's own books may take beyond the first request, in bytes. */
const memorySlack = 12 * 1024 * 1024;

/** Every form that a value could be carried off in. */
function formsOf(value: string): string[] {
  const bytes = Buffer.from(value);
  // Base64 at each of the three offsets, without what depends on the bytes around it.
  const base64 = [0, 1, 2].map((offset) => {
    const text = Buffer.concat([Buffer.alloc(offset), bytes]).toString('base64');
    return text.slice(Math.ceil((offset * 8) / 6), Math.floor(((offset + bytes.length) * 8) / 6));
  });
  const hex = bytes.toString('hex');
  const percent = (keep: RegExp) =>
    [...bytes]
      .map((b) =>
        keep.test(String.fromCharCode(b))
          ? String.fromCharCode(b)
          : `%${b.toString(16).toUpperCase().padStart(2, '0')}`,
      )
      .join('');
  return [
    value,
    ...base64,
    ...base64.map((text) => text.replaceAll('+', '-').replaceAll('/', '_')),
    hex,
    hex.toUpperCase(),
    percent(/[A-Za-z0-9._~-]/),
    percent(/[^\0-\uffff]/),
    JSON.stringify(value).slice(1, -1),
    Buffer.from(value, 'utf16le').toString('latin1'),
    Buffer.from(value, 'utf16le').swap16().toString('latin1'),
  ];
}

const formsByHost = Object.entries(secrets).map(([host, values]) => ({
  host,
  forms: Object.values(values).flatMap(formsOf),
}));

/** What one attack came to, from the client's side. */
export interface Outcome {
  /** The status of the CONNECT; 0 where there was none. */
  readonly connect: number;
  /** The error code that a handshake in the tunnel ended with. */
  readonly tlsError: string | null;
  /** Answers inside the tunnel, or to requests in absolute form. */
  readonly answers: readonly Answer[];
  /** The broker ended the connection. */
  readonly closed: boolean;
  /** Requests that reached an upstream whole, with the host that TLS or the Host field names. */
  readonly reached: readonly (Message & { readonly host: string })[];
}

export interface Attack {
  /** `host:port`; 443 and 80 stand for where the upstreams listen. Absent: no tunnel. */
  connect?: string;
  /** Lines more in the head of the CONNECT. */
  extra?: string;
  /** The server name in the tunnel; null: none. Default: the host of the CONNECT. */
  sni?: string | null;
  /** No TLS in the tunnel. */
  cleartext?: boolean;
  tls?: nodeTls.ConnectionOptions;
  /** What is sent then; latin1. */
  raw?: string;
  /** TLS to the proxy, too; it is by default. */
  wrapped?: boolean;
  vault?: string;
  token?: string;
  /** How many answers are waited for. Default 1; more than that show in the audit. */
  answers?: number;
  /** Whether the connection is to be ended by the broker: waited for. */
  closes?: boolean;
}

export interface Arena {
  readonly lane: TestLane;
  readonly tlsPort: number;
  readonly plainPort: number;
  /** Makes an attack of its own on an upstream that plays along. */
  upstream(script: (wire: Wire, n: number) => unknown, options?: UpstreamOptions): Promise<TestUpstream>;
  /** Carries one out and says what came of it. */
  attack(attack: Attack): Promise<Outcome>;
  /**
   * The five things that hold after each. `records`: audit records that it is to have left.
   * @throws Error that says which does not
   */
  holds(records: number): Promise<void>;
}

/** A lane with the fixtures of the vectors, and the upstreams that log what reaches them. */
export async function openArena(t: Test, options: TestLaneOptions = {}): Promise<Arena> {
  const failures: unknown[] = [];
  const note = (error: unknown): void => void failures.push(error);
  process.on('unhandledRejection', note);
  process.on('uncaughtException', note);
  t.teardown(() => {
    process.off('unhandledRejection', note);
    process.off('uncaughtException', note);
  });

  const lane = await startLane(
    { v1: vault, v2: { ...vault, settings: { unmatched_host_policy: 'deny' } } },
    {
      allowPrivateRanges: false,
      networkAllow: [`${openAddress}/32`],
      upstreamCa: [upstreamCa.certPem],
      ...options,
      names: { '*.test': [openAddress], ...options.names },
    },
  );
  t.teardown(() => lane.stop());
  const reached: (Message & { host: string })[] = [];
  const serve = async (wire: Wire): Promise<void> => {
    const sni = (wire.socket as tls.TLSSocket).servername;
    for (;;) {
      const request = await nextRequest(wire);
      const host = sni || (request.field('host') ?? '').replace(/:\d+$/, '');
      reached.push({ ...request, host });
      const body = host === 'echo.good.test' ? JSON.stringify(request.fields) : 'ok';
      wire.send(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    }
  };
  const secure = await rawUpstream(t, serve, { host: openAddress });
  const plain = await rawUpstream(t, serve, { host: openAddress, tls: false });
  const others: TestUpstream[] = [];
  /** All that clients got since the last look, but from the upstream that reflects. */
  let received = '';

  /** 443 and 80 of the vectors are where the upstreams are. */
  const mapped = (authority: string) =>
    authority.replace(/:443$/, `:${secure.port}`).replace(/:80$/, `:${plain.port}`);

  /** So many answers, or all that come until the connection ends. */
  async function answersOf(wire: Wire, count: number, closes: boolean): Promise<Answer[]> {
    const answers: Answer[] = [];
    while (closes || answers.length < count) {
      const answer = await nextAnswer(wire).catch(() => null);
      if (answer === null) break;
      answers.push(answer);
    }
    return answers;
  }

  async function attack(given: Attack): Promise<Outcome> {
    const { connect, raw = '', closes = false, vault = 'v1' } = given;
    const from = reached.length;
    const token = given.token ?? lane.tokens[vault];
    const done = (rest: Partial<Outcome>): Outcome => ({
      connect: 0,
      tlsError: null,
      answers: [],
      closed: false,
      reached: reached.slice(from),
      ...rest,
    });
    if (connect === undefined) {
      const wire = wireOf(await openProxy(lane, true));
      wire.send(raw.replace(/\r\n/, `\r\n${proxyAuth(token, vault)}`));
      const answers = await answersOf(wire, given.answers ?? 1, closes);
      received += wire.all;
      return done({ answers, closed: wire.ended });
    }
    const target = mapped(connect);
    if (given.extra !== undefined || !/^[\x20-\x7e]+$/.test(connect) || connect.includes(' ')) {
      const wire = wireOf(await openProxy(lane, true));
      wire.send(
        `CONNECT ${target} HTTP/1.1\r\nHost: x\r\n${proxyAuth(token, vault)}${given.extra ?? '\r\n'}`,
      );
      const answer = await nextAnswer(wire);
      received += wire.all;
      return done({ connect: answer.status, closed: wire.ended });
    }
    let inner: Awaited<ReturnType<typeof openTunnel>>;
    try {
      inner = await openTunnel(lane, vault, target, { token, wrapped: given.wrapped ?? true });
    } catch (error) {
      const status = Number(/^HTTP\/1\.1 (\d+)/.exec(String((error as Error).message))?.[1] ?? 0);
      received += String(error);
      return done({ connect: status });
    }
    if (given.cleartext !== true) {
      const host = connect.replace(/:\d+$/, '').replace(/^\[|\]$/g, '');
      const sni =
        given.sni === undefined ? (/^[\d.]+$|:/.test(host) ? '' : host.replace(/\.$/, '')) : given.sni;
      const socket = nodeTls.connect({
        socket: inner,
        ca: lane.rootPem,
        servername: sni ?? '',
        checkServerIdentity: () => undefined,
        ALPNProtocols: ['http/1.1'],
        ...given.tls,
      });
      const error = await new Promise<NodeJS.ErrnoException | null>((resolve) => {
        socket.once('secureConnect', () => resolve(null));
        socket.once('error', resolve);
      });
      if (error !== null) return done({ connect: 200, tlsError: error.code ?? error.message });
      inner = socket;
    }
    const wire = wireOf(inner);
    wire.send(raw);
    const answers = await answersOf(wire, given.answers ?? 1, closes);
    if (!connect.startsWith('echo.')) received += wire.all;
    return done({ connect: 200, answers, closed: wire.ended });
  }

  /** A request with injection, as any client makes it. */
  async function control(): Promise<void> {
    const began = performance.now();
    const outcome = await attack({
      connect: 'api.good.test:443',
      wrapped: false,
      raw: `GET ${controlPath} HTTP/1.1\r\nHost: api.good.test\r\n\r\n`,
    });
    const sent = outcome.reached[0]?.field('authorization');
    if (outcome.answers[0]?.status !== 200 || sent !== `Bearer ${secrets['api.good.test'].S_GOOD}`)
      throw new Error(`a normal request does not work any more: ${outcome.answers[0]?.line}, ${sent}`);
    // A second on a quiet machine; tests run on busy ones.
    if (performance.now() - began > 5000) throw new Error('a normal request takes seconds');
  }

  /** A value of a service, in any form, anywhere but with its own upstream; a token anywhere. */
  function leaks(): string[] {
    const wires = [secure, plain, ...others].flatMap(({ wires }) => wires);
    const places = [
      { host: 'a client', text: received },
      { host: 'the audit', text: JSON.stringify(lane.records) },
      ...wires.map((wire) => ({
        host:
          (wire.socket as tls.TLSSocket).servername ||
          (/^host: ([^\r:]*)/im.exec(wire.all)?.[1] ?? 'an upstream without a name'),
        text: wire.all,
      })),
    ];
    const own = (host: string, service: string) =>
      host === service ||
      (service.startsWith('*.') && host.split('.').slice(1).join('.') === service.slice(2));
    const found: string[] = [];
    for (const { host, text } of places) {
      for (const { host: service, forms } of formsByHost)
        if (!own(host, service) && forms.some((form) => text.includes(form)))
          found.push(`of ${service} at ${host}`);
      for (const token of Object.values(lane.tokens))
        if (formsOf(token).some((form) => text.includes(form))) found.push(`a token at ${host}`);
    }
    return found;
  }

  // What is made at the first request is not an attack's; that it works is for each case to see.
  await control().catch(() => {});
  await endAll();
  await eventually(() => lane.records.length === 1, 'the first record', 1000).catch(() => {});
  lane.records.length = 0;
  const baseline = { descriptors: descriptors(), memory: memory() };

  return {
    lane,
    tlsPort: secure.port,
    plainPort: plain.port,
    async upstream(script, options) {
      const up = await rawUpstream(t, script, { host: openAddress, ...options });
      others.push(up);
      return up;
    },
    attack,
    async holds(records) {
      try {
        await check(records);
      } finally {
        await endAll().catch(() => {});
        forget();
      }
    },
  };

  /** Ends every connection there is, and waits until the lane has none left either. */
  async function endAll(): Promise<void> {
    for (const up of [secure, plain]) {
      for (const socket of up.open) socket.destroy();
      (up.wires as Wire[]).length = 0;
    }
    await Promise.all(others.map((up) => up.close()));
    for (const client of lane.clients) client.destroy();
    await eventually(() => sockets() === 0, 'all connections to end', 5000);
  }

  /** The test's own books: what they hold is not the lane's to give back. */
  function forget(): void {
    others.length = 0;
    received = '';
    reached.length = 0;
    lane.records.length = 0;
  }

  /**
   * Looks at all five. The control request serves as a barrier: what the lane recorded before it is there once
   * its own record is, and what an attack has left running ends, and is recorded, when all connections do.
   */
  async function check(records: number): Promise<void> {
    const found = () => lane.records.filter(({ path }) => path !== controlPath);
    const miscounted = () =>
      new Error(`${found().length} audit records, not ${records}: ${JSON.stringify(found())}`);
    await control();
    const controlled = () => lane.records.length > found().length;
    await eventually(() => controlled() && found().length >= records, 'the audit records', 5000).catch(() => {
      throw miscounted();
    });
    const leaked = leaks();
    if (leaked.length > 0) throw new Error(`a value leaked: ${leaked.join(', ')}`);
    await endAll();
    // A batch of records is sent off after 20 ms.
    await sleep(25);
    if (found().length !== records) throw miscounted();
    const internal = found().filter(({ error, status }) => error === 'internal' || status === 500);
    if (internal.length > 0) throw new Error(`failures of the broker’s own: ${JSON.stringify(internal)}`);
    if (failures.length > 0) throw new Error(`unhandled: ${String(failures[0])}`);
    await eventually(() => descriptors() <= baseline.descriptors, 'all descriptors to be closed', 5000);
    forget();
    await eventually(() => fits(baseline.memory + memorySlack), 'all memory to be given back', 5000);
  }
}

/** Connections of this process, on either side; listeners do not count. */
function sockets(): number {
  return process.getActiveResourcesInfo().filter((kind) => kind === 'TCPSocketWrap').length;
}

function descriptors(): number {
  return readdirSync(platform() === 'linux' ? '/proc/self/fd' : '/dev/fd').length;
}

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** Whether no more than this many bytes are in use, in the heap and outside of it. */
function fits(bytes: number): boolean {
  // A collection takes longer than most attacks: only where it can make a difference.
  return inUse() <= bytes || memory() <= bytes;
}

function memory(): number {
  collect();
  return inUse();
}

function inUse(): number {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
