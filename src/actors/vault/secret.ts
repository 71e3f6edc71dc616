import { inspect } from 'node:util';
import { type OpenValue, textOf } from './values.ts';

/**
 * A value that must never be printed: a credential, a token, a password.
 *
 * Every way of turning it into text by accident (string conversion, JSON, `console.log`, a template)
 * gives `[secret]`; only `reveal()` gives the value, so that the places that read one can be found by name.
 * It does not survive structured cloning: between threads a secret travels as a plain value inside a
 * state message and is wrapped again on arrival.
 */
export class Secret {
  #value: OpenValue;

  constructor(value: OpenValue) {
    this.#value = value;
  }

  /** The value itself. Call it only where the value is put to its use. */
  reveal(): string {
    if (typeof this.#value !== 'string') this.#value = textOf(this.#value);
    return this.#value;
  }

  toString(): string {
    return '[secret]';
  }

  toJSON(): string {
    return '[secret]';
  }

  [Symbol.toPrimitive](): string {
    return '[secret]';
  }

  [inspect.custom](): string {
    return '[secret]';
  }
}
