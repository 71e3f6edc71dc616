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

/** A host that is written in letters beyond ASCII, as they look; null where it isn't. */
export function unicodeForm(host: string): string | null {
  if (!/(^|\.)xn--/.test(host)) return null;
  const shown = domainToUnicode(host);
  return shown === '' || shown === host ? null : shown;
}

/**
 * The known domain that a host could be taken for without belonging to it: written alike (`str1pe.com`), one slip away
 * (`stirpe.com`), or carrying its name (`stripe.com.example.net`, `stripe-api.com`); null where there is none.
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
  const before = `.${host.slice(0, host.length - own.length)}`;
  for (const other of others) {
    const [otherName] = other.split('.');
    if (otherName.length < shortestName) continue;
    const isAlike =
      skeleton(other) === drawn ||
      isOneSlip(skeleton(otherName), drawnName) ||
      before.includes(`.${other}.`) ||
      name.split('-').includes(otherName);
    if (isAlike) return other;
  }
  return null;
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
