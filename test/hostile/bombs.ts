import { type Attack, attack, head, type Making } from './attack.ts';

/*
 * Requests that want to become much more than they are: placeholders of long values, many of them, nearly one, and
 * segments that a value would turn into something else. Nothing here is repeated by its upstream.
 */

const where = ['path', 'query', 'header', 'fields', 'both'] as const;

/** Placeholders of long values, up to what a target or a head may hold, and over. */
export function bomb(making: Making): Attack {
  const { chance, mark } = making;
  const placeholder = chance.pick(['__huge__', '__mid__', '__mid__']);
  const count = chance.pick([1, 2, 16, 31, 33, 400, chance.between(1, 4000)]);
  const filler = chance.pick(['', '', '/', '.', '&', '%2f', '=', ' ', 'x'.repeat(20)]);
  const place = chance.pick(where);
  const inTarget = filler === ' ' ? '' : filler;
  const much = `${placeholder}${place === 'header' ? filler : inTarget}`.repeat(count);
  const path = `/${mark('ok')}/`;
  const fields: Record<(typeof where)[number], () => [string, string[]]> = {
    path: () => [path + much, []],
    query: () => [`${path}?a=${much}`, []],
    header: () => [path, [`X-Much: ${much}x`]],
    fields: () => [path, Array.from({ length: Math.min(count, 240) }, (_, i) => `X-${i}: ${placeholder}`)],
    both: () => [`${path}${placeholder}?${placeholder}`, [`X-Much: ${much}x`, `Cookie: ${placeholder}`]],
  };
  const [target, more] = fields[place]();
  const host = chance.chance(15) ? 'anywhere.test' : 'bomb.test';
  const text = head(making, `GET ${target}`, host, more);
  return attack({ kind: `bomb in ${place}`, host, text, ending: chance.chance(10) ? 'leave' : 'wait' });
}

/** Templates that name long values often. */
export function template(making: Making): Attack {
  const host = making.chance.pick(['template.test', 'wide.test']);
  const fill = `X-Fill: ${'f'.repeat(making.chance.pick([0, 10, 31_000, 33_000, 60_000]))}`;
  return attack({ kind: 'template', host, text: head(making, `GET /${making.mark('ok')}`, host, [fill]) });
}

/** What is nearly a placeholder, is within another, or would make a segment that goes up. */
export function nearly(making: Making): Attack {
  const { chance } = making;
  const piece = chance.pick([
    ...['__an__any__y__', '____any____', '__any', '_'.repeat(7), '__ANY__', '%5F%5Fany%5F%5F', '__%61ny__'],
    ...[
      '.__any__',
      '__any__..',
      '../__any__',
      '%2e%2e/__any__',
      '__any__/../..',
      '..;__any__',
      '.%2E/__any__',
    ],
  ]);
  const count = chance.pick([1, 1, 3, 500, 4000]);
  const line = `GET /${making.mark('ok')}/${piece.repeat(count).slice(0, 32_000)}?${piece}`;
  return attack({
    kind: 'nearly a placeholder',
    host: 'anywhere.test',
    text: head(making, line, 'anywhere.test', [`X-A: ${piece}`]),
  });
}
