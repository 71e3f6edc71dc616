import fc from 'fast-check';
import t from 'tap';
import { isHeaderName, isHeaderValue, isReservedHeader } from '../../src/actors/vault/header-rules.ts';
import { parseTemplate, templateKeys } from '../../src/actors/vault/template.ts';

t.test('templates (INJ-022)', async (t) => {
  const table: [string, unknown[]][] = [
    ['{{KEY}}', [{ key: 'KEY' }]],
    ['{{ KEY }}', [{ key: 'KEY' }]],
    ['{{ \t KEY\t}}', [{ key: 'KEY' }]],
    ['{{ A }}{{ B }}', [{ key: 'A' }, { key: 'B' }]],
    ['Token id={{ A }}, key="{{ B1_ }}"', ['Token id=', { key: 'A' }, ', key="', { key: 'B1_' }, '"']],
    ['{ {{A}} }', ['{ ', { key: 'A' }, ' }']],
    ['static {x}', ['static {x}']],
    ['', []],
  ];
  for (const [text, parts] of table) t.same(parseTemplate(text), { parts }, text);
  const malformed = [
    ...[
      '{{key}}',
      '{{ KEY-X }}',
      '{{{{A}}}}',
      '{{{A}}}',
      '{{A}}}',
      '{{{A}}',
      '{{',
      '}}',
      '{{}}',
      '{{ }}',
      '{{A',
      'A}}',
    ],
    ...[
      '{{\nA}}',
      '{{\u00a0A}}',
      '{{A B}}',
      '{{ {{A}} }}',
      '{{_A}}',
      '{{1A}}',
      '{{A}}}}',
      `{{${'A'.repeat(129)}}}`,
    ],
  ];
  for (const text of malformed) t.match(parseTemplate(text), { error: /belongs to no placeholder/ }, text);
  t.match(parseTemplate('x {{ A }} {{ b }}'), { error: /at character 11 / });
  t.match(parseTemplate('{{ A }} {{'), { error: /at character 9 / });
  t.same(templateKeys({ parts: ['x', { key: 'A' }, { key: 'B' }, { key: 'A' }] }), ['A', 'B']);

  // An oracle by runs of braces: each run of two or more must be half of a pair around one key.
  const wellFormed = (text: string): boolean => {
    const tokens = text.match(/\{+|\}+|[^{}]+/g) ?? [];
    for (let i = 0; i < tokens.length; i++) {
      if (!/^(\{\{|\}\})/.test(tokens[i])) continue;
      if (tokens[i] !== '{{' || tokens[i + 2] !== '}}' || !/^[ \t]*A+[ \t]*$/.test(tokens[i + 1]))
        return false;
      i += 2;
    }
    return true;
  };
  const piece = fc.constantFrom('{', '}', '{{', '}}', '{{ A }}', '{{A}}', ' ', '\t', 'A', 'b', 'text');
  fc.assert(
    fc.property(fc.array(piece), (pieces) => {
      const text = pieces.join('');
      const parsed = parseTemplate(text);
      if ('error' in parsed) return !wellFormed(text);
      const written = parsed.parts
        .map((part) => (typeof part === 'string' ? part : `{{${part.key}}}`))
        .join('');
      return wellFormed(text) && written === text.replace(/\{\{[ \t]*(A+)[ \t]*\}\}/g, '{{$1}}');
    }),
    { numRuns: 3000 },
  );
});

t.test('header names and values', async (t) => {
  for (const name of ['X-Api-Key', 'x_1', "!#$%&'*+-.^_`|~"]) t.ok(isHeaderName(name), name);
  for (const name of ['', 'A B', 'A:B', 'A\r\nB', ':path', 'Ä', 'a\n']) t.notOk(isHeaderName(name), name);
  for (const value of ['', 'a b\tc', '\x80\xff~']) t.ok(isHeaderValue(value));
  for (const value of ['\r', 'a\n', '\0', '\x1f', '\x7f', '\u0100', '😀']) t.notOk(isHeaderValue(value));
  for (const name of ['Authorization', 'Cookie', 'X-Api-Key', 'X-Vaults', 'Proxy'])
    t.notOk(isReservedHeader(name), name);
});
