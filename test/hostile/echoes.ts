import { type Attack, attack, head, type Making } from './attack.ts';
import { forms } from './forms.ts';

/*
 * Requests to upstreams that repeat what they got: in any form, coding, framing and place of the answer; and
 * placeholders where they may not be replaced.
 */

const covered = ['bearer.test', 'basic.test', 'key.test', 'custom.test', 'placed.test', 'anywhere.test'];
const shown = ['audited.test', 'passed.test'];

/** How an echo goes: its form, coding, framing and place, read by the upstream. */
function behaviour({ chance }: Making): string {
  const form = chance.pick(forms);
  if (chance.chance(25)) return `echo.${form}.${chance.pick(['field', 'reason', 'trailer', 'interim'])}`;
  const coding = chance.pick(['none', 'none', 'gzip', 'br', 'deflate', 'zstd', 'unknown', 'false', 'twice']);
  const framing = chance.pick(['length', 'chunks', 'bytes', 'close', 'pieces']);
  return `echo.${form}.body.${coding}.${framing}`;
}

function withBody(
  making: Making,
  line: string,
  host: string,
  fields: readonly string[],
  body: string,
): string {
  const all = [...fields, `Content-Length: ${body.length}`];
  return head(making, line, host, all) + body;
}

/** A request whose answer repeats it. */
export function echo(making: Making): Attack {
  const { chance } = making;
  const isShown = chance.chance(8);
  const host = chance.pick(isShown ? shown : covered);
  const mark = making.mark(behaviour(making));
  const method = chance.pick(['GET', 'GET', 'POST', 'PUT', 'HEAD']);
  const places = {
    'placed.test': `/bot__place__/${mark}?key=__place__`,
    'anywhere.test': `/${mark}/__any__?a=__any__`,
  };
  const line = `${method} ${places[host as keyof typeof places] ?? `/${mark}`}`;
  const fields = [
    chance.pick(['Accept-Encoding: gzip, br', 'Accept-Encoding: identity;q=0, *', 'Accept: */*']),
    chance.pick(['X-Place: __place__', 'X-Any: __any__', 'Authorization: Bearer mine', 'Range: bytes=0-']),
  ];
  const text =
    method === 'POST' || method === 'PUT'
      ? withBody(making, line, host, fields, 'body __any__ __place__')
      : head(making, line, host, fields);
  return attack({ kind: isShown ? 'echo, not covered' : 'echo', host, text, head: method === 'HEAD' });
}

/** Placeholders around their places; the upstream keeps as a note what stands elsewhere, and shows it. */
export function misplaced(making: Making): Attack {
  const { chance } = making;
  const mark = making.mark('note');
  const target = chance.pick([
    `/bot__place__/${mark}?text=__place__`,
    `/BOT__place__/${mark}?key=`,
    `//bot__place__/${mark}`,
    `/./bot__place__/${mark}`,
    `/x/../bot__place__/${mark}`,
    `/%62ot__place__/${mark}`,
    `/bot%5f_place__/${mark}`,
    `/bot__place__/${mark}/__place__/__place__`,
    `/bot__place____place__/${mark}`,
    `/${mark}/bot__place__/x`,
    `/${mark}?KEY=__place__&k%65y=__place__&%6bey=__place__`,
    `/${mark}?text=key=__place__`,
    `/${mark}?key=1;text=__place__&text=__place__`,
    `/${mark}?keys=__place__&key[]=__place__&&__place__=key&__place__`,
    `/${mark}?text=?key=__place__`,
    `/${mark}?a=%26key=__place__`,
  ]);
  const fields = chance.pick([
    ['X-Place2: __place__'],
    ['X_Place: __place__'],
    ['x-place : __place__'],
    ['X-Note: X-Place: __place__', 'Cookie: X-Place=__place__'],
    ['Connection: X-Place', 'X-Place: __place__', 'X-Note: __place__'],
    ['Referer: https://noted.test/bot__place__/?key=__place__'],
    ['User-Agent: __place__'],
  ]);
  const text = withBody(making, `POST ${target}`, 'noted.test', fields, '{"text":"__place__"}');
  return attack({ kind: 'misplaced', host: 'noted.test', text });
}
