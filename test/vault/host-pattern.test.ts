import fc from 'fast-check';
import t from 'tap';
import { parseHostPattern } from '../../src/actors/vault/host-pattern.ts';
import { chosen } from '../support/chosen.ts';
import { vectors } from './vectors.ts';

t.test('vectors: host_pattern', async (t) => {
  for (const { id, input, expect } of vectors('host_pattern')) {
    const parsed = parseHostPattern(input.pattern);
    if ('error' in parsed) return t.fail(`${id}: ${parsed.error}`);
    t.equal(chosen([parsed.pattern], input.host) !== undefined, expect.match, id);
  }
});

t.test('vectors: service_selection', async (t) => {
  for (const { id, input, expect } of vectors('service_selection')) {
    const services = new Map<string, string>();
    for (const { name, host, port } of input.services) {
      const parsed = parseHostPattern(port === undefined ? host : `${host}:${port}`);
      if ('error' in parsed) return t.fail(`${id}: ${parsed.error}`);
      services.set(parsed.pattern, name);
    }
    const pattern = chosen(services.keys(), input.host, input.port) ?? '';
    t.equal(services.get(pattern) ?? null, expect.name, id);
  }
});

t.test('host patterns: canonical form', async (t) => {
  const table: [string, string][] = [
    ['API.Example.COM', 'api.example.com'],
    ['api.example.com.', 'api.example.com'],
    ['api.example.com.:8443', 'api.example.com:8443'],
    ['github.io', 'github.io'],
    ['*.Example', '*.example'],
    ['*.test', '*.test'],
    ['*.acme.co.uk', '*.acme.co.uk'],
    ['*.acme.github.io:443', '*.acme.github.io:443'],
    ['my_host', 'my_host'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['*.bücher.example', '*.xn--bcher-kva.example'],
    ['10.0.0.1:80', '10.0.0.1:80'],
    ['[::1]', '[::1]'],
    ['[2001:DB8:0:0::1]:8080', '[2001:db8::1]:8080'],
  ];
  for (const [text, pattern] of table) t.same(parseHostPattern(text), { pattern }, text);
});

t.test('host patterns: refused', async (t) => {
  const wildcards = ['*', '*.*.a.example', '**.a.example', 'a.*.example', 'a*.example', '*a.example', '*.'];
  // EXF-018: right above a public suffix, ICANN's and private ones, wildcard rules of the list included.
  const suffixes = [
    '*.com',
    '*.CO.UK.',
    '*.github.io',
    '*.com:443',
    '*.ck',
    '*.s3.amazonaws.com',
    '*.公司.cn',
  ];
  const addresses = ['*.10.0.0.1', '*.[::1]', '*.1.1', '::1', '[::1', '::1]:80', '127.1', '0x7f000001'];
  const ports = [
    'a.example:',
    'a.example:0',
    'a.example:080',
    'a.example:65536',
    'a.example:1e3',
    'a.example:80:80',
  ];
  const others = [
    '',
    '.',
    '.a',
    'a..',
    'https://a.example',
    'a.example/x',
    'u@a.example',
    'a.example\n',
    'a%2eb',
    'a,b',
  ];
  for (const text of [...wildcards, ...suffixes, ...addresses, ...ports, ...others]) {
    t.type(Reflect.get(parseHostPattern(text), 'error'), 'string', JSON.stringify(text));
  }
});

t.test('host patterns: what to do about it', async (t) => {
  const table: [string, RegExp][] = [
    ['a.*.example', /whole first label/],
    ['*.co.uk', /public suffix/],
    ['*.10.0.0.1', /before an IP address/],
    ['::1', /in \[brackets\]/],
    ['https://a.example/', /no https:\/\//],
    ['a.example:99999', /:port/],
  ];
  for (const [text, error] of table) t.match(parseHostPattern(text), { error }, text);
});

t.test('host patterns: order of precedence', async () => {
  const hosts = fc.array(fc.constantFrom('a', 'b', 'c'), { minLength: 1, maxLength: 3 });
  const ports = fc.constantFrom(80, 443);
  const pattern = fc.record({ labels: hosts, wildcard: fc.boolean(), port: fc.option(ports) });
  // An oracle that knows nothing of look-ups: rank every pattern that matches.
  fc.assert(
    fc.property(fc.array(pattern), hosts, ports, (patterns, target, port) => {
      const services = new Map<string, number>();
      for (const p of patterns) {
        const labels = p.wildcard ? ['*', ...p.labels] : p.labels;
        const matches =
          labels.length === target.length &&
          labels.every((label, i) => label === target[i] || label === '*') &&
          (p.port ?? port) === port;
        const rank = (p.wildcard ? 2 : 0) + (p.port === null ? 1 : 0);
        services.set(labels.join('.') + (p.port === null ? '' : `:${p.port}`), matches ? rank : 9);
      }
      const best = Math.min(9, ...services.values());
      return (services.get(chosen(services.keys(), target.join('.'), port) ?? '') ?? 9) === best;
    }),
  );
});

t.test('host patterns: canonicalising is idempotent and never throws', async () => {
  const part = fc.constantFrom(
    '*',
    '.',
    ':',
    '[',
    ']',
    'a',
    'B',
    '1',
    'ü',
    '443',
    'com',
    'x-y',
    '::1',
    ' ',
    '%',
  );
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.array(part).map((parts) => parts.join('')),
  );
  fc.assert(
    fc.property(text, (input) => {
      const parsed = parseHostPattern(input);
      return 'error' in parsed || Reflect.get(parseHostPattern(parsed.pattern), 'pattern') === parsed.pattern;
    }),
    { numRuns: 2000 },
  );
});
