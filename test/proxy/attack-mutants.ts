import type { Mutant } from '../fuzz/mutants.ts';

/** A broken proxy, and the file of attacks that has to notice. */
export interface AttackMutant extends Mutant {
  /** `test/proxy/<seenBy>.test.ts` */
  readonly seenBy: string;
}

export const attackMutants: readonly AttackMutant[] = [
  {
    name: 'takes a length and a coding',
    file: 'head.ts',
    changes: [['if (lengths + codings > 1)', 'if (lengths > 1 || codings > 1)']],
    seenBy: 'attacks-framing',
  },
  {
    name: 'waits for heads that never become legal',
    file: 'client-connection.ts',
    changes: [['requestPrefixError(bytes, start, from)', 'null']],
    seenBy: 'attacks-framing',
  },
  {
    name: 'reads on behind a refusal',
    file: 'client-connection.ts',
    changes: [
      [
        'this.writeRefusal(refusal, id, false, false);\n    this.close();',
        'this.writeRefusal(refusal, id, true, false);',
      ],
    ],
    seenBy: 'attacks-framing',
  },
  {
    name: 'leaves a descriptor open at each refusal',
    file: 'client-connection.ts',
    changes: [
      [
        '#refuseHead(refusal: Problem): void {',
        "#refuseHead(refusal: Problem): void { process.getBuiltinModule('node:fs').openSync('/dev/null');",
      ],
    ],
    seenBy: 'attacks-framing',
  },
  {
    name: 'rejects a promise that nobody waits for',
    file: 'client-connection.ts',
    changes: [
      [
        'const body = problemBody(p, id);',
        "const body = problemBody(p, id); void Promise.reject(new Error('unhandled'));",
      ],
    ],
    seenBy: 'attacks-framing',
  },
  {
    name: 'forgets everybody after an attack',
    file: 'client-connection.ts',
    changes: [
      [
        '#refuseHead(refusal: Problem): void {',
        '#refuseHead(refusal: Problem): void { this.lane.state.clear();',
      ],
    ],
    seenBy: 'attacks-framing',
  },
  {
    name: 'keeps a mebibyte of each request',
    file: 'exchange.ts',
    changes: [
      [
        'this.#finished = true;',
        'this.#finished = true; (globalThis.kept ??= []).push(Buffer.alloc(2 ** 20, 1));',
      ],
    ],
    seenBy: 'attacks-framing',
  },
  {
    name: 'takes the Host field’s word',
    file: 'client-connection.ts',
    changes: [['host.host === authority.host && (', '(']],
    seenBy: 'attacks-authority',
  },
  {
    name: 'serves any server name',
    file: 'tunnel.ts',
    changes: [['if (hello.serverName !== null && (', 'if (hello.serverName === 0 && (']],
    seenBy: 'attacks-authority',
  },
  {
    name: 'vets the first address only',
    file: 'netguard.ts',
    changes: [['for (const address of addresses) {', 'for (const address of addresses.slice(0, 1)) {']],
    seenBy: 'attacks-authority',
  },
  {
    name: 'forwards Proxy-Authorization',
    file: 'plan.ts',
    changes: [
      [
        'name.role !== role.authorization) return false;',
        'name.role !== role.authorization && name.role !== role.proxyAuthorization) return false;',
      ],
    ],
    seenBy: 'attacks-injection',
  },
  {
    name: 'keeps the client’s own field beside the slot',
    file: 'plan.ts',
    changes: [['if (slots.size > 0 && slots.has(name.lower)) return false;', '']],
    seenBy: 'attacks-injection',
  },
  {
    name: 'writes the credential to the audit',
    file: 'exchange.ts',
    changes: [['keys: this.#plan?.keys ?? [],', "keys: (this.#plan?.head ?? '').split('\\r\\n'),"]],
    seenBy: 'attacks-injection',
  },
  {
    name: 'writes no record',
    file: 'exchange.ts',
    changes: [['lane.record(facts, outcome', 'Object(facts, outcome']],
    seenBy: 'attacks-injection',
  },
  {
    name: 'puts in any value',
    file: 'inject.ts',
    changes: [['return !notInField.test(text);', 'return true;']],
    seenBy: 'attacks-injection',
  },
  {
    name: 'lets a value climb the path',
    file: 'substitute.ts',
    changes: [['return changesDots(text, found) ?', 'return false ?']],
    seenBy: 'attacks-injection',
  },
  {
    name: 'gives another vault’s connection',
    file: 'upstreams.ts',
    changes: [['vaultId} $', '0} $']],
    seenBy: 'reuse',
  },
  {
    name: 'gives another session’s connection',
    file: 'upstreams.ts',
    changes: [
      [
        'this.#owners.get(session)?.origins.get(key);',
        '[...this.#owners.values()].map((o) => o.origins.get(key)).find((o) => o?.idle.length > 0);',
      ],
    ],
    seenBy: 'reuse',
  },
  {
    name: 'uses a connection again after a body that was not read',
    file: 'methods.ts',
    changes: [['return !undefinedBody.has(method) && ', 'return true || ']],
    seenBy: 'reuse',
  },
  {
    name: 'uses a connection again after a refused body',
    file: 'exchange.ts',
    changes: [['status < 300 &&', '']],
    seenBy: 'reuse',
  },
  {
    name: 'uses a connection again after an early answer',
    file: 'exchange.ts',
    changes: [
      ['      this.requestComplete &&\n      this.#upstream?.socket.writableLength === 0', '      true'],
    ],
    seenBy: 'reuse',
  },
  {
    name: 'sends a POST twice',
    file: 'methods.ts',
    changes: [["'PUT', 'DELETE'])", "'PUT', 'DELETE', 'POST'])"]],
    seenBy: 'reuse',
  },
  {
    name: 'sends nothing twice',
    file: 'exchange.ts',
    changes: [['if (!this.#reused || ', 'if (true || ']],
    seenBy: 'reuse',
  },
  {
    name: 'sends again what was decided before',
    file: 'exchange.ts',
    changes: [
      [
        'else if (this.#decide()) {\n      const { session, vault }',
        'else if (this.#plan !== null || this.#decide()) {\n      const { session, vault }',
      ],
      ['if (!this.#finished && this.#decide())', 'if (!this.#finished)'],
    ],
    seenBy: 'reuse',
  },
  {
    name: 'outlives its session',
    file: 'sweep.ts',
    changes: [['swept.session !== null && !swept.session.valid(wall)', 'false']],
    seenBy: 'attacks-injection',
  },
  {
    name: 'takes a 101 that nobody asked for',
    file: 'exchange.ts',
    changes: [
      ["this.#head.websocket && head.upgradeTo === 'websocket' ? webSocketKey(this.#head) : null", "''"],
      ['key === null || !acceptsWebSocket(head, key)', 'head.upgradeTo === 0'],
    ],
    seenBy: 'attacks-upstream',
  },
  {
    name: 'keeps an upstream that sent too much',
    file: 'exchange.ts',
    changes: [['if (response.end < chunk.length && this.#upstream !== null)', 'if (response.end < 0)']],
    seenBy: 'attacks-upstream',
  },
  {
    name: 'takes any answer for a WebSocket’s',
    file: 'websocket.ts',
    changes: [['=== wanted', '!== 0']],
    seenBy: 'attacks-upstream',
  },
  {
    name: 'passes an upstream’s 407 on',
    file: 'exchange.ts',
    changes: [['head.status === 407', 'head.status === 0']],
    seenBy: 'attacks-upstream',
  },
  {
    name: 'lets an upstream speak for the broker with underscores',
    file: 'exchange.ts',
    changes: [['name.alias !== null && (', 'name.alias === 0 && (']],
    seenBy: 'attacks-upstream',
  },
  {
    name: 'reads on for as long as a refused client sends',
    file: 'client-connection.ts',
    changes: [['if (this.#readOver > lingerBytes) this.pause();', '']],
    seenBy: 'connections',
  },
  {
    name: 'relays by what held before the name was looked up',
    file: 'blind-tunnel.ts',
    changes: [['else if (this.#holdsGood()) {', 'else {']],
    seenBy: 'blind-tunnel',
  },
  {
    name: 'takes a common name for a name',
    file: 'server-identity.ts',
    changes: [['{ subjectaltname } as', '{ ...certificate, subjectaltname } as']],
    seenBy: 'tls',
  },
  {
    name: 'lets an upstream speak for the broker',
    file: 'exchange.ts',
    changes: [['name.lower === brokerErrorField ||', '']],
    seenBy: 'attacks-upstream',
  },
  {
    name: 'does not verify upstreams',
    file: 'dial.ts',
    changes: [['rejectUnauthorized: true,', 'rejectUnauthorized: false,']],
    seenBy: 'attacks',
  },
  {
    name: 'lets a throw end the lane',
    file: 'client-connection.ts',
    changes: [
      [
        'this.#onData(chunk);\n    } catch (error) {\n      this.fail(error);',
        'this.#onData(chunk);\n    } catch (error) {\n      throw error;',
      ],
    ],
    seenBy: 'containment',
  },
  {
    name: 'replaces a placeholder anywhere',
    file: 'substitute.ts',
    changes: [['if (isPlace(slot, start)) {', '{']],
    seenBy: 'substitution',
  },
  {
    name: 'builds before it checks the size',
    file: 'substitute.ts',
    changes: [
      ["if (end + growth > room) return { failed: 'size', key: slot.key };", ''],
      [
        "found !== null && raw.length + growth > room ? { failed: 'size', key: found.slots[0].key } : found",
        'found',
      ],
    ],
    seenBy: 'substitution',
  },
  {
    name: 'lets an echo through',
    file: 'reflection.ts',
    changes: [
      [
        'return this.#watch.redacts ? this.#scanner.redact(content, last)',
        'return this.#watch.redacts ? content',
      ],
    ],
    seenBy: 'reflection',
  },
  {
    name: 'records each refusal',
    file: 'refusal-sums.ts',
    changes: [['if (this.#rate === 0) return true;', 'if (this.#rate !== -1) return true;']],
    seenBy: 'refusals',
  },
  {
    name: 'gives one session all look-ups',
    file: 'lookups.ts',
    changes: [['const most = Math.min(maxOfOne, free / 2);', 'const most = free;']],
    seenBy: 'lookups',
  },
  {
    name: 'passes TRACK',
    file: 'methods.ts',
    changes: [['/^trac[ek]$/i', '/^trace$/i']],
    seenBy: 'reuse',
  },
  {
    name: 'records long paths whole',
    file: 'audit-line.ts',
    changes: [['if (path.length <= maxPath)', 'if (path.length >= 0)']],
    seenBy: 'refusals',
  },
];
