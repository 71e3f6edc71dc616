import { constants, createHash } from 'node:crypto';
import tls from 'node:tls';
import type { CaProtocol } from '../actors/ca.ts';
import type { Ref } from '../actors/core/protocol.ts';
import { ciphers } from '../proxy/tls-parameters.ts';

interface Leaf {
  readonly context: tls.SecureContext;
  /** Wall clock, ms: where it stands outside of these, after a while or because it was set, another leaf is asked for. */
  readonly notBefore: number;
  readonly renewAt: number;
  /** Its first word is 1 once another root signs. */
  readonly retired: Int32Array;
}

function isGood({ notBefore, renewAt, retired }: Leaf): boolean {
  const now = Date.now();
  return now >= notBefore && now < renewAt && Atomics.load(retired, 0) === 0;
}

/** Contexts that a lane keeps; each holds a parsed certificate and OpenSSL's own state. */
const maxLeaves = 1024;
/** A leaf is asked for anew when it has less than this to live, in ms. */
const renewBefore = 3_600_000;

/** What every server context of the proxy has in common. */
function serverContext(
  keyPem: string,
  certPem: string,
  ticketKeys: Uint8Array,
  id: string,
): tls.SecureContext {
  return tls.createSecureContext({
    key: keyPem,
    cert: certPem,
    minVersion: 'TLSv1.2',
    ciphers,
    ticketKeys: Buffer.from(ticketKeys),
    // A session is resumed only under the name it was made for.
    sessionIdContext: createHash('sha256').update(id).digest('hex').slice(0, 32),
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION | constants.SSL_OP_NO_COMPRESSION,
    honorCipherOrder: true,
  } as tls.SecureContextOptions);
}

/** The lane's leaves by host, least recently used first; one question to the ca actor a host, however many wait. */
export class Leaves {
  readonly #ca: Ref<CaProtocol>;
  readonly #keyPem: string;
  readonly #ticketKeys: Uint8Array;
  readonly #cache = new Map<string, Leaf>();
  readonly #asked = new Map<string, Promise<tls.SecureContext>>();

  constructor(ca: Ref<CaProtocol>, keyPem: string, ticketKeys: Uint8Array) {
    this.#ca = ca;
    this.#keyPem = keyPem;
    this.#ticketKeys = ticketKeys;
  }

  get(host: string): Promise<tls.SecureContext> {
    const known = this.#cache.get(host);
    if (known !== undefined && isGood(known)) {
      this.#cache.delete(host);
      this.#cache.set(host, known);
      return Promise.resolve(known.context);
    }
    let asked = this.#asked.get(host);
    if (asked === undefined) {
      asked = this.#ask(host).finally(() => this.#asked.delete(host));
      this.#asked.set(host, asked);
    }
    return asked;
  }

  /** The certificate of the proxy's own listener, which is there without asking. */
  async listener(names: readonly string[]): Promise<ListenerLeaf> {
    const mint = async () => this.#made(await this.#ca.ask('listener', { names }), 'proxy listener');
    return new ListenerLeaf(await mint(), mint);
  }

  async #ask(host: string): Promise<tls.SecureContext> {
    const leaf = this.#made(await this.#ca.ask('leaf', { host }), host);
    this.#cache.set(host, leaf);
    if (this.#cache.size > maxLeaves) this.#cache.delete(this.#cache.keys().next().value as string);
    return leaf.context;
  }

  #made({ certPem, notBefore, notAfter, retired }: CaProtocol['leaf']['out'], id: string): Leaf {
    const context = serverContext(this.#keyPem, certPem, this.#ticketKeys, id);
    return { context, notBefore, renewAt: notAfter - renewBefore, retired: new Int32Array(retired) };
  }
}

/** One leaf that is used without waiting: whoever holds it has it renewed in time. */
export class ListenerLeaf {
  #leaf: Leaf;
  #asked = false;
  readonly #mint: () => Promise<Leaf>;

  constructor(leaf: Leaf, mint: () => Promise<Leaf>) {
    this.#leaf = leaf;
    this.#mint = mint;
  }

  get context(): tls.SecureContext {
    return this.#leaf.context;
  }

  /** To be called now and then. Asks for another leaf where this one is about to end; what fails is asked again. */
  renew(): void {
    if (this.#asked || isGood(this.#leaf)) return;
    this.#asked = true;
    this.#mint()
      .then((leaf) => {
        this.#leaf = leaf;
      })
      .catch(() => {})
      .finally(() => {
        this.#asked = false;
      });
  }
}
