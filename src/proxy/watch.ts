import type { Secret } from '../actors/vault/secret.ts';
import { EchoAutomaton } from './echo-automaton.ts';
import { echoForms } from './echo-forms.ts';

/** So many characters of what a service puts in are looked for: more than most servers take in a head. */
const mostCharacters = 8192;

/** A value that is put in, and the keys it is of. */
export interface Injected {
  readonly keys: readonly string[];
  readonly value: Secret;
}

/** What the answers of a service are looked through for, and what becomes of it. */
export class Watch {
  /** It becomes asterisks, rather than a word in the record. */
  readonly redacts: boolean;
  readonly #injected: readonly Injected[];
  #automaton: EchoAutomaton | null = null;

  constructor(injected: readonly Injected[], redacts: boolean) {
    this.#injected = injected;
    this.redacts = redacts;
  }

  /** Made at the first answer. */
  get automaton(): EchoAutomaton {
    if (this.#automaton !== null) return this.#automaton;
    const patterns = new Map<string, Set<string>>();
    let room = mostCharacters;
    for (const { keys, value } of this.#injected) {
      const text = value.reveal().slice(0, room).toWellFormed();
      room -= text.length;
      for (const form of echoForms(text)) {
        const names = patterns.get(form);
        if (names === undefined) patterns.set(form, new Set(keys));
        else for (const key of keys) names.add(key);
      }
    }
    this.#automaton = new EchoAutomaton(patterns);
    return this.#automaton;
  }
}
