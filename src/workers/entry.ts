import { randomBytes } from 'node:crypto';
import dns from 'node:dns';
import tls from 'node:tls';
import { heartbeat } from '../actors/core/heartbeat.ts';
import { connect } from '../actors/core/link.ts';
import { SignInFailures } from '../actors/vault/sign-in-failures.ts';
import { ActiveSessions } from '../proxy/active-sessions.ts';
import { membersOf, type Outcome, type RequestFacts, refusalOf, unnamed } from '../proxy/audit-line.ts';
import { AuditSink, noSlot } from '../proxy/audit-sink.ts';
import { Caller } from '../proxy/caller.ts';
import { Dialler } from '../proxy/dial.ts';
import { drain } from '../proxy/drain.ts';
import { FailureLog } from '../proxy/failure-log.ts';
import type { Lane } from '../proxy/lane.ts';
import { LaneState } from '../proxy/lane-state.ts';
import { Limits } from '../proxy/limits.ts';
import { listen } from '../proxy/listener.ts';
import { type Lookup, Lookups } from '../proxy/lookups.ts';
import { Meters } from '../proxy/meters.ts';
import { createNetguard } from '../proxy/netguard.ts';
import { ownAddresses } from '../proxy/own-addresses.ts';
import { RefusalSums } from '../proxy/refusal-sums.ts';
import { Shares } from '../proxy/shares.ts';
import { Sweeper } from '../proxy/sweep.ts';
import { ciphers } from '../proxy/tls-parameters.ts';
import { Turns } from '../proxy/turns.ts';
import { Upstreams } from '../proxy/upstreams.ts';
import type { LaneBoot, LanePeers } from './boot.ts';
import { Leaves } from './leaves.ts';
import { StateReader } from './state-reader.ts';

/**
 * A lane: one long task on one thread of the pool, with a listener of its own on the shared proxy port. It
 * answers from the state it holds and asks the main thread only for a certificate it does not have yet.
 * Resolves when it was told to stop; a throw anywhere in it ends the thread, and its actor starts another.
 *
 * @param seams how names are resolved: the system's way, except where a test brings names of its own
 */
export default async function lane(
  boot: LaneBoot,
  seams: { readonly lookup: Lookup } = { lookup: dns.lookup },
): Promise<void> {
  const { port, shared, options } = boot;
  // Nothing here may depend on what the environment says about verification.
  delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
  const peers = connect<LanePeers>(port, ['ca', 'vault'], { credits: 1024 });
  const state = new LaneState();
  const reader = new StateReader(boot.statePort, shared.epoch, state);
  const failures = new FailureLog((line) => process.stderr.write(line));
  const failed = (error: unknown): void => failures.failed(error, null);
  const audit = new AuditSink(
    boot.audit.memory,
    new ActiveSessions(boot.audit.runFile),
    () => boot.audit.port.postMessage(null),
    new Int32Array(shared.auditHealth),
    options.auditFailOpen,
    failed,
  );
  const refusals = new RefusalSums((line) => audit.add(line), options.auditRefusalRate);
  const meters = new Meters(shared.meters, boot.lane);
  const leaves = new Leaves(peers.ca, boot.leafKeyPem, boot.ticketKeys);
  const listenerLeaf = await leaves.listener(boot.listenerNames);
  const turns = new Turns(failed);
  let sweeps = 0;
  const sweeper = new Sweeper(() => {
    reader.gate();
    if (++sweeps % 4 === 0) audit.sweep();
    meters.setOpen(sweeper.size);
    listenerLeaf.renew();
  });
  const netguard = createNetguard({
    allowPrivateRanges: options.allowPrivateRanges,
    allow: options.networkAllow,
    ownPorts: [options.port, options.apiPort],
    ownAddresses,
  });
  const secureContext = tls.createSecureContext({
    ca: [...tls.rootCertificates, ...tls.getCACertificates('system'), ...options.upstreamCa],
    minVersion: 'TLSv1.2',
    ciphers,
  });
  const shares = new Shares(shared.shares, boot.lanes, boot.lane);
  const { connect: connectMs, upstreamTls: tlsMs } = options.timeouts;
  const dialler = new Dialler({
    netguard,
    lookups: new Lookups(seams.lookup, shares, connectMs, failed),
    secureContext,
    failed,
    connectMs,
    tlsMs,
  });
  // The same clock on all lanes: each thread's own performance.now() begins at its start.
  const sinceBoot = Number(process.hrtime.bigint() / 1000n) - performance.now() * 1000;
  const idPrefix = `${randomBytes(5).toString('hex')}${boot.lane.toString(36)}-`;
  let lastId = 0;
  const isOwn = (facts: RequestFacts, o: Outcome): boolean =>
    refusals.isOwn(refusalOf(facts, o), (named) => membersOf(named ? facts : { ...facts, ...unnamed }, o));
  const self: Lane = {
    state,
    gate: () => reader.gate(),
    sweeper,
    turns,
    shares,
    upstreams: new Upstreams(dialler, turns, sweeper, meters),
    limits: new Limits(shared.limits, boot.lanes, boot.lane),
    defaultLimit: options.limit,
    audit,
    meters,
    record: (facts, o, slot = noSlot) => {
      if (o.sent || isOwn(facts, o)) audit.finish(slot, facts, o);
      else audit.release(slot);
      meters.request(o.status, o.error, facts.keys.length > 0, o.bytesIn, o.bytesOut, o.milliseconds);
    },
    failed: (error, requestId) => failures.failed(error, requestId),
    timeouts: options.timeouts,
    plain: options.plain,
    baseUrl: options.baseUrl,
    get listenerContext() {
      return listenerLeaf.context;
    },
    leaf: (host) => leaves.get(host),
    requestId: () => idPrefix + (++lastId).toString(36),
    micros: () => sinceBoot + performance.now() * 1000,
    draining: false,
    notice: (type, vault, data) => {
      peers.vault.tell('notice', { type, vault, actor: null, at: new Date().toISOString(), data });
    },
  };
  if (!reader.gate()) throw new Error('the state was not there when the lane started');
  const caller = new Caller(
    state,
    new SignInFailures(shared.failures, options.authFailures),
    shares,
    self.micros,
  );
  const listener = await listen(self, caller, {
    host: options.host,
    port: options.port,
    reusePort: boot.lanes > 1,
  });

  await new Promise<void>((resolve) => {
    heartbeat(port, {
      onDrain: async () => {
        void listener.stop();
        await drain(self, options.drainMs);
        refusals.flush();
        audit.flush();
      },
      onStop: resolve,
    });
  });
  sweeper.close();
  boot.statePort.close();
  // Last: what is still unfinished then is the main thread's to finish.
  boot.audit.port.close();
  port.close();
}
