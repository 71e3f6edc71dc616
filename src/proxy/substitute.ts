import { type Substitution, type Surface, surfaces, surfacesOf } from '../actors/vault/model.ts';
import type { Secret } from '../actors/vault/secret.ts';
import { isDotSegment } from './dot-segment.ts';
import { encodePath, encodeQuery } from './percent.ts';
import { Parameters, type Place, placeOf } from './places.ts';

/** What a substitution did to one component, or why it could not. */
export type Substituted = { readonly text: string; readonly keys: readonly string[] } | SubstitutionFailure;

interface SubstitutionFailure {
  readonly failed: 'missing' | 'damaged' | 'illegal' | 'size';
  readonly key: string;
}

/** A placeholder on one surface. */
interface Slot {
  readonly key: string;
  readonly placeholder: string;
  /** null: anywhere. */
  readonly place: Place | null;
  /** The value as it stands on this surface, made at its first use: once, not for each request. */
  encoded: string | null;
}

/** Placeholders that are to be replaced, in order: which, and where they begin. */
interface Found {
  readonly slots: Slot[];
  readonly starts: number[];
}

const encoders: Readonly<Record<Surface, (value: string) => string>> = {
  path: encodePath,
  query: encodeQuery,
  header: (value) => value,
};

/**
 * The substitutions of one service (protocol, "Substitution"): literal, case-sensitive, one pass over each
 * declared surface, the longest placeholder first, so that a value that holds a placeholder is not read again.
 *
 * The size of a result is known before any of it is built: who fills a request with placeholders pays for
 * looking at it, in time linear in its length.
 */
export class Substituter {
  readonly #credentials: ReadonlyMap<string, Secret | null>;
  /** For each surface its placeholders, the longest first. */
  readonly #slots: Readonly<Record<Surface, readonly Slot[]>>;

  constructor(substitutions: readonly Substitution[], credentials: ReadonlyMap<string, Secret | null>) {
    this.#credentials = credentials;
    const slotsOf = (surface: Surface): Slot[] =>
      substitutions
        .filter((each) => surfacesOf(each).includes(surface))
        .map(({ key, placeholder, at }) => ({
          ...{ key, placeholder, encoded: null },
          place: at === undefined ? null : placeOf(surface, at),
        }))
        .sort((a, b) => b.placeholder.length - a.placeholder.length);
    const [path, query, header] = surfaces.map(slotsOf);
    this.#slots = { path, query, header };
  }

  get scansHeaders(): boolean {
    return this.#slots.header.length > 0;
  }

  /**
   * Substitutes in a raw path; null where there is nothing to do.
   *
   * @param room most characters that the result may have
   */
  path(raw: string, room: number): Substituted | null {
    const found = this.#find('path', raw, room, ({ place, placeholder }, start) =>
      place === null ? true : place.isInPath(raw, start + placeholder.length),
    );
    if (found === null || 'failed' in found) return found;
    const { text, keys } = build(raw, found);
    // A segment that the value turned into `.` or `..`, however encoded, would be another path upstream.
    return changesDots(text, found) ? { failed: 'illegal', key: keys[0] } : { text, keys };
  }

  /** Substitutes in a raw query (without `?`), in the same way. */
  query(raw: string, room: number): Substituted | null {
    if (this.#slots.query.length === 0) return null;
    const parameters = new Parameters(raw);
    const found = this.#find('query', raw, room, ({ place }, start) =>
      place === null ? true : place.names.has(parameters.nameAt(start)),
    );
    return found === null || 'failed' in found ? found : build(raw, found);
  }

  /**
   * Substitutes in a field value, as it is, in the same way.
   *
   * @param name of the field, lower case
   */
  header(name: string, value: string, room: number): Substituted | null {
    const found = this.#find('header', value, room, ({ place }) => place?.names.has(name) ?? true);
    return found === null || 'failed' in found ? found : build(value, found);
  }

  /** The placeholders in a text that are in their places, the leftmost first, of these the longest; null: there are none. */
  #find(
    surface: Surface,
    raw: string,
    room: number,
    isPlace: (slot: Slot, start: number) => boolean,
  ): Found | SubstitutionFailure | null {
    const slots = this.#slots[surface];
    if (slots.length === 0) return null;
    // Each placeholder is looked for once, natively: no more than so many passes over the text.
    const next = slots.map(({ placeholder }) => raw.indexOf(placeholder));
    let found: Found | null = null;
    let growth = 0;
    for (;;) {
      let first = -1;
      for (let i = 0; i < next.length; i++) {
        if (next[i] >= 0 && (first < 0 || next[i] < next[first])) first = i;
      }
      if (first < 0) break;
      const slot = slots[first];
      const start = next[first];
      const end = start + slot.placeholder.length;
      // Out of its place it goes as it is, all of it.
      if (isPlace(slot, start)) {
        const encoded = slot.encoded ?? this.#encode(surface, slot);
        if (typeof encoded !== 'string') return encoded;
        growth += encoded.length - slot.placeholder.length;
        if (end + growth > room) return { failed: 'size', key: slot.key };
        found ??= { slots: [], starts: [] };
        found.slots.push(slot);
        found.starts.push(start);
      }
      for (let i = 0; i < next.length; i++) {
        if (next[i] >= 0 && next[i] < end) next[i] = raw.indexOf(slots[i].placeholder, end);
      }
    }
    return found !== null && raw.length + growth > room ? { failed: 'size', key: found.slots[0].key } : found;
  }

  #encode(surface: Surface, slot: Slot): string | SubstitutionFailure {
    const { key } = slot;
    const value = this.#credentials.get(key);
    if (value === undefined) return { failed: 'missing', key };
    if (value === null) return { failed: 'damaged', key };
    slot.encoded = encoders[surface](value.reveal());
    return slot.encoded;
  }
}

/** Puts the values in. Afterwards `starts` says where each of them ends in the result. */
function build(raw: string, { slots, starts }: Found): { text: string; keys: string[] } {
  const keys: string[] = [];
  const pieces: string[] = [];
  let from = 0;
  let shift = 0;
  for (let i = 0; i < slots.length; i++) {
    const { key, encoded, placeholder } = slots[i] as Slot & { encoded: string };
    if (!keys.includes(key)) keys.push(key);
    if (starts[i] > from) pieces.push(raw.slice(from, starts[i]));
    pieces.push(encoded);
    from = starts[i] + placeholder.length;
    shift += encoded.length - placeholder.length;
    starts[i] = from + shift;
  }
  pieces.push(raw.slice(from));
  return { text: pieces.join(''), keys };
}

/** Whether one of the segments that hold a value is a dot segment. A value's own slashes are encoded. */
function changesDots(path: string, { starts: ends }: Found): boolean {
  if (!path.includes('.') && !path.includes('%')) return false;
  let seen = -1;
  for (const end of ends) {
    if (end <= seen) continue;
    const slash = path.indexOf('/', end);
    const stop = slash < 0 ? path.length : slash;
    if (isDotSegment(path.slice(path.lastIndexOf('/', end - 1) + 1, stop))) return true;
    seen = stop;
  }
  return false;
}
