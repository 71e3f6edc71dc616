import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';

/** One check taken out of the proxy, or turned around: the suite has to notice. */
export interface Mutant {
  readonly name: string;
  /** Below src/proxy. */
  readonly file: string;
  /** Texts of the source, and what stands there instead; each occurs once. */
  readonly changes: readonly (readonly [find: string, put: string])[];
}

export const mutants: readonly Mutant[] = [
  {
    name: 'forwards a name with a space behind it',
    file: 'fields.ts',
    changes: [['|~0-9A-Za-z]+$/', '|~0-9A-Za-z]+ ?$/']],
  },
  {
    name: 'takes a space before the colon',
    file: 'head.ts',
    changes: [['fieldName(text.slice(at, colon))', 'fieldName(text.slice(at, colon).trimEnd())']],
  },
  {
    name: 'takes a length and a coding',
    file: 'head.ts',
    changes: [['if (lengths + codings > 1)', 'if (lengths > 1 || codings > 1)']],
  },
  { name: 'takes two lengths', file: 'head.ts', changes: [['lengths++;', 'lengths = 1;']] },
  {
    name: 'takes a sign before the length',
    file: 'head.ts',
    changes: [['/^(0|[1-9][0-9]{0,15})$/', '/^[+]?(0|[1-9][0-9]{0,15})$/']],
  },
  {
    name: 'takes any coding that holds the word',
    file: 'head.ts',
    changes: [["value.toLowerCase() !== 'chunked'", "!value.toLowerCase().includes('chunked')"]],
  },
  { name: 'takes a bare line feed', file: 'head.ts', changes: [['|(?<!\\r)\\n/', '/']] },
  { name: 'takes a bare carriage return', file: 'head.ts', changes: [['|\\r(?!\\n)', '']] },
  {
    name: 'takes two hosts',
    file: 'head.ts',
    changes: [["if (host !== null) return bad('More than one Host field.');", '']],
  },
  {
    name: 'lets a chunk size overflow',
    file: 'chunked.ts',
    changes: [
      ['if (++this.#digits > 12) return this.#fail();', 'this.#digits++;'],
      ['this.#size = this.#size * 16 + digit;', 'this.#size = (this.#size * 16 + digit) >>> 0;'],
    ],
  },
  {
    name: 'takes anything behind a chunk',
    file: 'chunked.ts',
    changes: [['case state.dataCr:\n          if (byte !== CR) return this.#fail();', 'case state.dataCr:']],
  },
  {
    name: 'takes a framing field in the trailers',
    file: 'exchange.ts',
    changes: [['if (trailers?.names.some(', 'if (trailers?.names.every(']],
  },
  {
    name: 'lets aliases of framing fields pass',
    file: 'plan.ts',
    changes: [['name.alias === null ||', 'true ||']],
  },
  {
    name: 'keeps what Connection nominates',
    file: 'plan.ts',
    changes: [['if (nominated?.includes(name.lower)) return false;', '']],
  },
  {
    name: 'keeps a trailer that Connection nominates',
    file: 'plan.ts',
    changes: [
      [
        'name.role === role.endToEnd && passes(name, nominated,',
        'name.role === role.endToEnd && passes(name, null,',
      ],
    ],
  },
  {
    name: 'throws at a short first read',
    file: 'tunnel.ts',
    changes: [
      ['latin1Slice(0, Math.min(requestStartBytes, bytes.length))', 'latin1Slice(0, requestStartBytes)'],
    ],
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
  },
  {
    name: 'keeps an upstream that sent too much',
    file: 'exchange.ts',
    changes: [['if (response.end < chunk.length && this.#upstream !== null)', 'if (response.end < 0)']],
  },
  {
    name: 'waits for the body of an answer to HEAD',
    file: 'exchange.ts',
    changes: [["const bodiless = this.#head.method === 'HEAD' ||", 'const bodiless =']],
  },
  {
    name: 'takes an interim answer for the final one',
    file: 'exchange.ts',
    changes: [['if (head.status >= 200 || head.status === 101)', 'if (head.status >= 103)']],
  },
];

/** The source with the mutant in it; throws where the source has moved on from what it changes. */
export function mutated({ name, file, changes }: Mutant): string {
  let source = readFileSync(new URL(`../../src/proxy/${file}`, import.meta.url), 'utf8');
  for (const [find, put] of changes) {
    if (source.split(find).length !== 2)
      throw new Error(`The mutant "${name}" needs this once in ${file}: ${find}`);
    source = source.replace(find, () => put);
  }
  return source;
}

/** Has every later import of the mutant's file load it with the mutant in it. */
export function load(mutant: Mutant): void {
  const source = mutated(mutant);
  registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context);
      return url.endsWith(`/src/proxy/${mutant.file}`) ? { ...loaded, source } : loaded;
    },
  });
}
