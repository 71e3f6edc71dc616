import { domainToUnicode } from 'node:url';
import { registrationOf } from '../../actors/vault/host-pattern.ts';

/** Letters that look like others: digits, and what Cyrillic and Greek have in the shape of Latin ones. */
const twins: Readonly<Record<string, string>> = {
  ...{ '0': 'o', '1': 'l', '3': 'e', '4': 'a', '5': 's', '8': 'b', i: 'l', q: 'g' },
  ...{ а: 'a', в: 'b', е: 'e', ё: 'e', һ: 'h', і: 'l', ї: 'l', ј: 'j', к: 'k', ӏ: 'l', м: 'm', н: 'h' },
  ...{ о: 'o', р: 'p', с: 'c', ѕ: 's', т: 't', у: 'y', х: 'x', ԁ: 'd', ԛ: 'g', ԝ: 'w', ь: 'b', ү: 'y' },
  ...{ α: 'a', β: 'b', ε: 'e', η: 'n', ι: 'l', κ: 'k', ν: 'v', ο: 'o', ρ: 'p', τ: 't', υ: 'u', χ: 'x' },
  ...{ ı: 'l', ł: 'l', ɡ: 'g', ɑ: 'a', ƅ: 'b', ƙ: 'k' },
};

/** Shorter names are near to too many others to say anything. */
const shortestName = 5;
/** Shorter names are parts of too many words. */
const shortestPart = 6;

/** What is put beside a name to look like it: `githubapi`, `login-okta`. */
const besides: ReadonlySet<string> = new Set(
  [
    'account accounts admin ai api apis app apps auth billing bot cdn cloud com connect corp dashboard data dev',
    'developer docs download edge files gateway get go group help hq hub id inc io login mail my net official online',
    'org pay payments platform portal prod public secure security server service services site sso static status',
    'store support sync team test the token tokens update upload v1 v2 verify web webhook webhooks www',
  ].flatMap((words) => words.split(' ')),
);

/** A host that is written in letters beyond ASCII, as they look; null where it isn't. */
export function unicodeForm(host: string): string | null {
  if (!/(^|\.)xn--/.test(host)) return null;
  const shown = domainToUnicode(host);
  return shown === '' || shown === host ? null : shown;
}

/**
 * The known domain that a host could be taken for without belonging to it: written alike (`str1pe.com`), one slip away
 * (`stirpe.com`), or carrying its name (`stripe.com.example.net`, `stripe.com-auth.net`, `stripe-api.com`,
 * `githubapi.com`); null where there is none.
 *
 * @param host canonical, without port and wildcard
 * @param known domains as their owners registered them
 */
export function lookAlike(host: string, known: Iterable<string>): string | null {
  const own = registrationOf(host).domain ?? host;
  const others = new Set(known);
  if (others.has(own)) return null;
  const [name] = own.split('.');
  const drawn = skeleton(unicodeForm(own) ?? own);
  const drawnName = skeleton(unicodeForm(name) ?? name);
  const dashed = (text: string) => `-${text.replaceAll('.', '-')}-`;
  const whole = dashed(host);
  for (const other of others) {
    const [otherName] = other.split('.');
    const isAlike =
      whole.includes(dashed(other)) ||
      carries(drawnName, skeleton(otherName)) ||
      (otherName.length >= shortestName &&
        (skeleton(other) === drawn || isOneSlip(skeleton(otherName), drawnName)));
    if (isAlike) return other;
  }
  return null;
}

/** The known domain whose name a label below a host's own domain carries, as `gitlab.example.com` does; null: none. */
export function namesAnother(host: string, known: Iterable<string>): string | null {
  const own = registrationOf(host).domain ?? host;
  const others = new Set(known);
  if (others.has(own)) return null;
  const labels = host
    .slice(0, -own.length)
    .split('.')
    .map((label) => skeleton(unicodeForm(label) ?? label));
  for (const other of others) {
    const drawn = skeleton(other.split('.')[0]);
    if (drawn.length >= shortestName && labels.some((label) => label === drawn || carries(label, drawn)))
      return other;
  }
  return null;
}

/** Whether a label has a name in it, both drawn: as a part between hyphens, beside a common word, or as a rare part. */
function carries(label: string, name: string): boolean {
  const at = label.indexOf(name);
  if (at === -1 || label === name) return false;
  if (name.length >= shortestPart || (name.length >= 3 && label.split('-').includes(name))) return true;
  const rest = [label.slice(0, at), label.slice(at + name.length)].map((part) => part.replace(/^-|-$/g, ''));
  return name.length >= 4 && rest.every((part) => part === '' || drawnBesides.has(part));
}

function skeleton(text: string): string {
  const plain = [...text.normalize('NFKD').toLowerCase()]
    .filter((char) => !/\p{M}/u.test(char))
    .map((char) => twins[char] ?? char);
  return plain.join('').replaceAll('rn', 'm').replaceAll('vv', 'w');
}

/** Whether they are the same, or one letter more, less, other, or exchanged with its neighbour makes one of the other. */
function isOneSlip(a: string, b: string): boolean {
  if (Math.abs(a.length - b.length) > 1) return false;
  let start = 0;
  while (start < a.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < Math.min(a.length, b.length) - start && a.at(-1 - end) === b.at(-1 - end)) end++;
  const left = a.slice(start, a.length - end);
  const right = b.slice(start, b.length - end);
  if (left.length <= 1 && right.length <= 1) return true;
  return left.length === 2 && left[0] === right[1] && left[1] === right[0];
}

const drawnBesides: ReadonlySet<string> = new Set([...besides].map(skeleton));
