import { createPublicKey } from 'node:crypto';
import { type CaRoots, fingerprint, type RootPem, rotated, type Standing, standing } from './ca-roots.ts';
import type { ActorSpec } from './core/behavior.ts';
import { createAlarm } from './vault/alarm.ts';
import { accept, type Problem, type Result, refuse } from './vault/problem.ts';
import type { By } from './vault/protocol.ts';
import { backdatedMs, createLeaf, leafLifetimeMs, openRoot, type Root } from './x509.ts';

/** A certificate that was minted: PEM, and its life in milliseconds since the epoch. */
interface Leaf {
  readonly certPem: string;
  readonly notBefore: number;
  readonly notAfter: number;
  /** Its first word becomes 1 when another root signs from then on: clients may not trust this one any longer. */
  readonly retired: SharedArrayBuffer;
}

export interface CaProtocol {
  /** The certificate for a CONNECT authority: a name, an IPv4 address, or an IPv6 address without brackets. */
  leaf: { in: { host: string }; out: Leaf };
  /** What clients are told to trust, the root that signs now first. `switchesAt` (ISO 8601) while the next one waits. */
  root: { in: Record<string, never>; out: { certPem: string; switchesAt?: string } };
  /** One certificate for all the names and addresses that the proxy listener is reached by; the first is its CN. */
  listener: { in: { names: readonly string[] }; out: Leaf };
  /** Makes the next root, which signs from `overlapMs` from now on. */
  rotate: {
    in: { overlapMs: number; by: By };
    out: Result<{ readonly sha256: string; readonly switches_at: string }>;
  };
  /** Does what is due by now. The actor's own timer sends it. */
  turn: { in: Record<string, never> };
}

/** Where roots are kept for good. Either function may reject: then the actor starts anew from what is kept. */
export interface RootStore {
  load(): Promise<CaRoots>;
  /** `action` and `details` are for the audit. null: kept. */
  save(
    roots: CaRoots,
    change: { readonly action: string; readonly details: Readonly<Record<string, string>>; readonly by: By },
  ): Promise<Problem | null>;
}

export interface CaOptions {
  /** Without a store the one root is never rotated. */
  readonly root: RootPem | RootStore;
  /** The one key that every leaf of this process is for; the lanes hold it too. P-256, PKCS #8 PEM. */
  readonly leafKey: { readonly privatePem: string };
  /** Certificates kept, least recently used dropped first. Default 4096: about 4 MB. */
  readonly cacheSize?: number;
}

/** A leaf with less life than this left is minted anew: connections that begin with it may last a while. */
const renewBelowMs = 2 * 3_600_000;

/** Between two tries to take a root that is over out of the store. */
const retryMs = 60_000;

const system: By = { actor: 'system', label: null, request_id: '' };

/**
 * The only holder of the roots' keys: nothing that it answers carries one.
 *
 * Messages are handled one at a time, so that a host asked for by every lane at once is minted once. A host
 * that no certificate can name is a failure of the actor, not an answer: authorities are checked before.
 */
export function caActor(options: CaOptions): ActorSpec<CaProtocol> {
  const cacheSize = options.cacheSize ?? 4096;
  const { root: source } = options;
  const store = 'load' in source ? source : null;
  const key = createPublicKey(options.leafKey.privatePem);
  /** Of the root that signs. It outlasts a restart: lanes hold on to its word. */
  let signing: { readonly certPem: string; readonly root: Root; readonly retired: SharedArrayBuffer } | null =
    null;

  return {
    name: 'ca',
    async start({ clock, self }) {
      let roots: CaRoots = 'load' in source ? await source.load() : { current: source, next: null };
      const alarm = createAlarm(clock, () => self.tell('turn', {}) === 'sent');
      /** By names, least recently used first. */
      const cache = new Map<string, Leaf>();
      signer(look());

      function look(): Standing {
        const found = standing(roots, clock.now());
        alarm.before(found.until);
        return found;
      }

      /** The root that signs now. All leaves of the one before it are over the moment that there is another. */
      function signer({ signer: pem }: Standing) {
        if (signing?.certPem === pem.certPem) return signing;
        if (signing !== null) Atomics.store(new Int32Array(signing.retired), 0, 1);
        cache.clear();
        signing = { certPem: pem.certPem, root: openRoot(pem), retired: new SharedArrayBuffer(4) };
        return signing;
      }

      function mint(names: readonly string[]): Leaf {
        const { root, retired } = signer(look());
        const now = clock.now();
        const id = names.join(' ');
        const cached = cache.get(id);
        cache.delete(id);
        const leaf = cached !== undefined && isFresh(cached, now) ? cached : create();
        cache.set(id, leaf);
        if (cache.size > cacheSize) cache.delete(cache.keys().next().value as string);
        return leaf;

        function create(): Leaf {
          const [host, ...extraNames] = names;
          const certPem = createLeaf({ root, key, host, extraNames, now });
          return { certPem, notBefore: now - backdatedMs, notAfter: now + leafLifetimeMs, retired };
        }
      }

      async function rotate({
        overlapMs,
        by,
      }: CaProtocol['rotate']['in']): Promise<CaProtocol['rotate']['out']> {
        if (store === null)
          return refuse('conflict', 'This root is not kept by the broker, and cannot be rotated.');
        const wanted = rotated(roots, clock.now(), overlapMs);
        if (!wanted.ok) return wanted;
        const { root, at } = wanted.value.next as NonNullable<CaRoots['next']>;
        const details = { sha256: fingerprint(root.certPem), switches_at: new Date(at).toISOString() };
        const refused = await store.save(wanted.value, { action: 'ca.rotate', details, by });
        if (refused) return { ok: false, problem: refused };
        roots = wanted.value;
        signer(look());
        return accept(details);
      }

      /** Takes the key of a root that is over out of the store. What fails is tried again: it changes nothing else. */
      async function turn(): Promise<void> {
        const found = look();
        signer(found);
        if (found.settled === roots || store === null) return;
        const details = { sha256: fingerprint(roots.current.certPem) };
        const failed = await store
          .save(found.settled, { action: 'ca.retire', details, by: system })
          .catch(() => true);
        if (failed) alarm.before(clock.now() + retryMs);
        else roots = found.settled;
      }

      if (look().settled !== roots) self.tell('turn', {});

      return {
        handlers: {
          leaf: ({ host }) => mint([host]),
          root() {
            const { trusted, signer: pem } = look();
            const waits = roots.next !== null && pem.certPem !== roots.next.root.certPem;
            const certPem = trusted.join('');
            if (!waits || roots.next === null) return { certPem };
            return { certPem, switchesAt: new Date(roots.next.at).toISOString() };
          },
          listener: ({ names }) => mint(names),
          rotate,
          turn,
        },
      };
    },
  };
}

/** One that isn't valid yet is no use either: the clock was set back. */
function isFresh({ notBefore, notAfter }: Leaf, now: number): boolean {
  return now >= notBefore && notAfter - now >= renewBelowMs;
}
