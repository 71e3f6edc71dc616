import { type Random, random } from '../fuzz/random.ts';

/** A vault of the run: what its services put in, by key. */
export interface Vault {
  readonly name: string;
  readonly values: Readonly<Record<string, string>>;
}

/** Keys whose services let answers pass as they are: that the search for values finds these shows that it searches. */
export const shownKeys: ReadonlySet<string> = new Set(['AUDITED', 'PASSED']);

const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
/** What URLs, JSON and HTML would rather have escaped. */
const signs = "/+=&'{}~;?";
/** What a URL can't hold as it is: each part of an odd value has some, so that encoded twice it is another text. */
const unsafe = '%"\\<># ';

function plain(chance: Random, length: number): string {
  return Array.from({ length }, () => letters[chance.below(letters.length)]).join('');
}

function odd(chance: Random, length: number): string {
  const any = Array.from({ length: length - 2 }, (_, i) =>
    i % 4 === 3 ? chance.pick([...unsafe]) : chance.pick([...letters, ...signs]),
  );
  // White space at the ends couldn't stand in a field.
  return `${plain(chance, 1)}${any.join('')}${plain(chance, 1)}`;
}

/** The two vaults: the same keys, other values. */
export function vaultsOf(seed: number): readonly Vault[] {
  return ['red', 'blue'].map((name, i) => {
    const chance = random(seed, 1_000_000_000 + i);
    const safe = (length: number) => plain(chance, length);
    const hard = (length: number) => odd(chance, length);
    return {
      name,
      values: {
        ...{ TOKEN: safe(40), USER: safe(30), PASS: hard(32), KEY: hard(36), ONE: hard(30), TWO: safe(24) },
        ...{
          PLACE: hard(33),
          NOTED: hard(33),
          ANY: hard(45),
          CALM: safe(40),
          AUDITED: hard(36),
          PASSED: safe(36),
        },
        ...{ HUGE: safe(65_536), MID: safe(2_048), WIDE: safe(2_000) },
      },
    };
  });
}

const placed = (key: string) => [
  { key, placeholder: '__place__', at: { path: '/bot__place__/*', query: ['key'], header: ['X-Place'] } },
];
const passthrough = { type: 'passthrough' };
const anywhere = ['path', 'query', 'header'];

/** The services of each vault, as its API takes them. */
export const services = [
  { host: 'bearer.test', auth: { type: 'bearer', token: 'TOKEN' }, reflection: 'redact' },
  { host: 'basic.test', auth: { type: 'basic', username: 'USER', password: 'PASS' }, reflection: 'redact' },
  {
    host: 'key.test',
    auth: { type: 'api-key', key: 'KEY', header: 'X-Api-Key', prefix: 'Key ' },
    reflection: 'redact',
  },
  {
    host: 'custom.test',
    auth: { type: 'custom', headers: { 'X-One': 'a={{ONE}}', 'X-Two': '{{TWO}};{{ONE}}' } },
    reflection: 'redact',
  },
  {
    host: 'placed.test',
    auth: { type: 'bearer', token: 'TOKEN' },
    substitutions: placed('PLACE'),
    reflection: 'redact',
  },
  // What it is not replaced in must not hold it: here nothing is covered.
  { host: 'noted.test', auth: passthrough, substitutions: placed('NOTED'), reflection: 'pass' },
  // Without places: covered by itself.
  {
    host: 'anywhere.test',
    auth: passthrough,
    substitutions: [{ key: 'ANY', placeholder: '__any__', in: anywhere }],
  },
  {
    host: 'bomb.test',
    auth: passthrough,
    substitutions: [
      { key: 'HUGE', placeholder: '__huge__', in: anywhere },
      { key: 'MID', placeholder: '__mid__', in: anywhere },
    ],
  },
  { host: 'template.test', auth: { type: 'custom', headers: { 'X-Many': '{{HUGE}}'.repeat(16) } } },
  { host: 'wide.test', auth: { type: 'custom', headers: { 'X-Wide': '{{WIDE}}'.repeat(16) } } },
  { host: '*.fuzz.test', auth: { type: 'bearer', token: 'TOKEN' }, reflection: 'redact' },
  { host: 'audited.test', auth: { type: 'api-key', key: 'AUDITED', header: 'X-Key' }, reflection: 'audit' },
  { host: 'passed.test', auth: { type: 'bearer', token: 'PASSED' }, reflection: 'pass' },
  { host: 'calm.test', auth: { type: 'bearer', token: 'CALM' } },
];
