import type { Places, Surface } from '../actors/vault/model.ts';

/** Where on one surface a placeholder is replaced (protocol, "Substitution", `at`). */
export class Place {
  /** The path up to its `*`. */
  readonly #path: string;
  readonly #hasRest: boolean;
  /** Of parameters as they are written, or of fields in lower case. */
  readonly names: ReadonlySet<string | null>;

  constructor(path: string, names: readonly string[]) {
    this.#hasRest = path.endsWith('*');
    this.#path = this.#hasRest ? path.slice(0, -1) : path;
    this.names = new Set(names);
  }

  /** Whether a placeholder that ends at `end` is one that the template of the path has there. */
  isInPath(raw: string, end: number): boolean {
    // What lies within the part that is compared stands in the template too.
    return end <= this.#path.length && (this.#hasRest ? raw.startsWith(this.#path) : raw === this.#path);
  }
}

export function placeOf(surface: Surface, at: Places): Place {
  if (surface === 'path') return new Place(at.path ?? '', []);
  return new Place('', (surface === 'query' ? at.query : at.header?.map((name) => name.toLowerCase())) ?? []);
}

/** Walks through a raw query, from parameter to parameter, forwards only: linear, however many are asked for. */
export class Parameters {
  readonly #raw: string;
  #start = 0;
  #end = -1;
  #name: string | null = null;
  /** The present one's value. */
  #from = 0;
  #to = 0;

  constructor(raw: string) {
    this.#raw = raw;
  }

  /**
   * The name of the parameter in whose value an index lies, as it is written; null: in none. To some servers a `;`
   * ends a parameter: what lies behind one could be another's.
   *
   * @param index not before that of an earlier call
   */
  nameAt(index: number): string | null {
    while (index > this.#end) this.#advance();
    return index >= this.#from && index < this.#to ? this.#name : null;
  }

  #advance(): void {
    const raw = this.#raw;
    this.#start = this.#end + 1;
    const ampersand = raw.indexOf('&', this.#start);
    this.#end = ampersand < 0 ? raw.length : ampersand;
    const parameter = raw.slice(this.#start, this.#end);
    const equals = parameter.indexOf('=');
    const semicolon = parameter.indexOf(';');
    this.#name = equals < 0 ? null : parameter.slice(0, equals);
    this.#from = this.#start + equals + 1;
    this.#to = semicolon < 0 ? this.#end : this.#start + semicolon;
  }
}
