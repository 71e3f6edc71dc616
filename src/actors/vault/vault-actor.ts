import type { KeyObject } from 'node:crypto';
import type { AuditProtocol } from '../audit.ts';
import type { ActorSpec } from '../core/behavior.ts';
import type { Ref } from '../core/protocol.ts';
import type { SupervisionPolicy } from '../core/supervision.ts';
import { createAlarm } from './alarm.ts';
import { createOutbox } from './outbox.ts';
import type { VaultEvent, VaultProtocol } from './protocol.ts';
import { createPublisher } from './publisher.ts';
import type { Quotas } from './quotas.ts';
import type { Store } from './store.ts';
import { agentHandlers } from './vault-agents.ts';
import { approvalHandlers } from './vault-approval.ts';
import { credentialHandlers } from './vault-credentials.ts';
import { dueAt, sweep } from './vault-expiry.ts';
import { loadState, type OnDamaged } from './vault-load.ts';
import { loginCodeHandlers } from './vault-login-codes.ts';
import { metaHandlers } from './vault-meta.ts';
import { operatorHandlers } from './vault-operators.ts';
import { proofHandlers } from './vault-proof.ts';
import { proposalHandlers } from './vault-proposals.ts';
import { serviceHandlers } from './vault-services.ts';
import { sessionHandlers } from './vault-sessions.ts';
import { fullState } from './vault-state.ts';
import { vaultHandlers } from './vault-vaults.ts';
import { createWriter, type Writer } from './vault-writer.ts';

export interface VaultOptions {
  /** Prepared by `prepareVault`, which also gives `kek`. Whoever opened it closes it. */
  readonly store: Store;
  readonly kek: KeyObject;
  readonly audit: Ref<AuditProtocol>;
  /** The number of the last change in the audit log as it was found (`audit-tail.ts`); asked once at most. */
  readonly lastAudited: () => number;
  readonly quotas: Quotas;
  /** Told of what operators and agents want to hear of, after it has happened. It must not throw. */
  readonly onEvent?: (event: VaultEvent) => void;
  /** Told of commits that the store refused. */
  readonly onError?: (error: Error) => void;
  /** Told at each start of rows that could not be read. */
  readonly onDamaged?: OnDamaged;
  /** Default: the runtime's. */
  readonly supervision?: SupervisionPolicy;
}

const retryMs = 1000;

/**
 * What waits behind everything else: what agents write, of which there may be a thousand at once, each a commit, and
 * what nobody waits for. So approvals, revocations and looking up a token don't wait for it.
 */
function waits(message: string, body: unknown): boolean {
  if (message === 'credential.set') return (body as VaultProtocol['credential.set']['in']).byAgent;
  return /^(proposal\.(create|cancel)|invite\.redeem|notice|expire)$/.test(message);
}
/** What agents write most of: such changes share a commit, each judged against the state with those before it. */
function together(message: string, body: unknown): boolean {
  return message === 'credential.set' && waits(message, body);
}

/** What the audit log has is taken out of the outbox so long after a change, if no other commit does it. */
const tidyMs = 2000;

/**
 * The vault: the only writer of the store, with the whole model in memory. Messages are handled one at a time, a commit
 * included, so that every change is judged against the state that it is made to; values that agents write share one.
 * A restart reads everything anew and tells every lane.
 */
export function vaultActor(options: VaultOptions): ActorSpec<VaultProtocol> {
  const { store, kek, audit, quotas, supervision } = options;
  const { onEvent = () => {}, onError = () => {}, onDamaged = () => {} } = options;
  const publisher = createPublisher();
  const outbox = createOutbox(audit);

  return {
    name: 'vault',
    supervision,
    urgent: (message, body) => !waits(message, body),
    together,
    async start({ clock, self, fail }) {
      const state = await loadState(store, kek, onDamaged);
      await outbox.load(store, options.lastAudited);
      publisher.publishAll(fullState(state));
      const alarm = createAlarm(clock, () => self.tell('expire', {}) === 'sent');
      const flushAudit = () => {
        if (!outbox.flush()) alarm.before(clock.now() + retryMs);
      };
      const writer = createWriter({
        state,
        store,
        publisher,
        outbox,
        quotas,
        now: clock.now,
        onEvent,
        onError,
        onLost: fail,
        onSettled(changes) {
          for (const change of changes) alarm.before(dueAt(change));
          flushAudit();
          alarm.before(clock.now() + tidyMs);
        },
      });
      alarm.before(clock.now());

      return {
        handlers: {
          ...vaultHandlers(writer),
          ...serviceHandlers(writer),
          ...credentialHandlers(writer),
          ...proposalHandlers(writer),
          ...approvalHandlers(writer),
          ...sessionHandlers(writer),
          ...agentHandlers(writer),
          ...operatorHandlers(writer),
          ...loginCodeHandlers(writer),
          ...metaHandlers(writer),
          ...proofHandlers(state),
          'lane.attach'({ lane, port, epoch }) {
            publisher.attach(lane, port, epoch, fullState(state));
            return null;
          },
          'lane.detach': ({ lane }) => publisher.detach(lane),
          notice: (event) => onEvent(event),
          async expire() {
            flushAudit();
            alarm.before(await expireDue(writer));
            if (!(await outbox.tidy(store.commit))) alarm.before(clock.now() + tidyMs);
          },
        },
        onDrain: () => void outbox.flush(),
      };
    },
  };
}

/** Expires what is due. Gives when to look again, wall clock ms; null: when something new is written. */
async function expireDue({ state, now, commit }: Writer): Promise<number | null> {
  const { changes, deeds, events, next } = sweep(state, now());
  if (changes.length === 0) return next;
  const failed = await commit(changes, deeds, events);
  return failed ? now() + retryMs : next;
}
