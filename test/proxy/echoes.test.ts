/** Values that stand in answers: every form is found, however the bytes are cut, and nothing else is touched. */
import fc from 'fast-check';
import t from 'tap';
import { EchoAutomaton } from '../../src/proxy/echo-automaton.ts';
import { echoForms } from '../../src/proxy/echo-forms.ts';
import { EchoScanner } from '../../src/proxy/echo-scanner.ts';

function automatonOf(...values: string[]): EchoAutomaton {
  const patterns = new Map<string, Set<string>>();
  for (const [i, value] of values.entries())
    for (const form of echoForms(value)) patterns.set(form, (patterns.get(form) ?? new Set()).add(`K${i}`));
  return new EchoAutomaton(patterns);
}

/** What comes out of a stream that is cut at these places, and what was found. */
function scanned(automaton: EchoAutomaton, text: Buffer, cuts: readonly number[], redacts = true) {
  const scanner = new EchoScanner(automaton);
  const push = (chunk: Buffer, last: boolean) =>
    redacts ? scanner.redact(chunk, last) : scanner.look(chunk, last);
  const at = [...new Set(cuts.map((cut) => cut % (text.length + 1)))].sort((a, b) => a - b);
  const out: Buffer[] = [];
  let from = 0;
  for (const cut of at) {
    // Each chunk is used again by its owner.
    const chunk = Buffer.from(text.subarray(from, cut));
    out.push(Buffer.from(push(chunk, false)));
    chunk.fill(0);
    from = cut;
  }
  out.push(Buffer.from(push(Buffer.from(text.subarray(from)), true)));
  return { text: Buffer.concat(out), names: [...(scanner.names ?? [])].sort() };
}

const percentOf = (byte: number, upper: boolean) => {
  const digits = byte.toString(16).padStart(2, '0');
  return `%${upper ? digits.toUpperCase() : digits}`;
};
const unicode = (char: string) =>
  [...Array(char.length).keys()]
    .map((i) => `\\u${char.charCodeAt(i).toString(16).padStart(4, '0')}`)
    .join('');

/** A value in each of the forms; `choices` tell of each character whether and how it is escaped. */
function formsOf(value: string, choices: readonly number[], around: string): Buffer[] {
  const choice = (i: number) => choices[i % choices.length];
  const perByte = [...Buffer.from(value)].map((byte, i) =>
    choice(i) === 0 && byte < 0x80 && byte !== 0x25 && byte !== 0x5c
      ? String.fromCharCode(byte)
      : percentOf(byte, choice(i) === 1),
  );
  const perChar = [...value].map((char, i) => {
    const plain = JSON.stringify(char).slice(1, -1);
    if (choice(i) === 1 || (plain.length > 1 && choice(i) === 2)) return unicode(char);
    return char === '/' && choice(i) > 0 ? '\\/' : plain;
  });
  const utf8 = Buffer.from(value);
  const base64 = [0, 1, 2, 5].map((n) => Buffer.concat([Buffer.from(around.slice(0, n)), utf8, utf8]));
  return [
    utf8,
    Buffer.from(encodeURIComponent(value)),
    Buffer.from(perByte.join('')),
    Buffer.from(JSON.stringify(value)),
    Buffer.from(perChar.join('')),
    Buffer.from(utf8.toString('hex')),
    Buffer.from(utf8.toString('hex').toUpperCase()),
    ...base64.flatMap((bytes) => [
      Buffer.from(bytes.toString('base64')),
      Buffer.from(bytes.toString('base64url')),
      Buffer.from(bytes.toString('base64').replaceAll('/', '\\/')),
      Buffer.from(encodeURIComponent(bytes.toString('base64'))),
    ]),
  ];
}

const unit = fc.oneof(
  { arbitrary: fc.constantFrom(...'abAB01+/-_.~ %\\"{}:'), weight: 5 },
  { arbitrary: fc.constantFrom('é', 'ß', '€', '😀'), weight: 1 },
);
const secret = fc
  .string({ unit, minLength: 8, maxLength: 40 })
  // What is short with its escapes undone can't be told from what stands anywhere.
  .filter((value) => value.replace(/%[0-9a-f]{2}/gi, '.').length >= 8);
const cuts = fc.array(fc.nat(4000), { maxLength: 12 });
const choices = fc.array(fc.nat(2), { minLength: 1, maxLength: 9 });

t.test('each form is found and covered, wherever the stream is cut; lengths and all else stay', async (t) => {
  fc.assert(
    fc.property(secret, choices, cuts, fc.string({ unit, maxLength: 30 }), (value, how, at, around) => {
      const automaton = automatonOf(value);
      for (const form of formsOf(value, how, `${around}-----`)) {
        // A comma is in no form: what stands around a value is not part of another.
        const body = Buffer.concat([Buffer.from(',,'), form, Buffer.from(',,')]);
        const { text, names } = scanned(automaton, body, at);
        if (names.join() !== 'K0') throw new Error(`not found: ${body}`);
        if (text.length !== body.length) throw new Error('another length');
        const again = scanned(automaton, text, []);
        if (again.names.length > 0) throw new Error(`survives: ${text}`);
        if (!text.subarray(0, 2).equals(Buffer.from(',,'))) throw new Error('before it');
        if (!text.subarray(-2).equals(Buffer.from(',,'))) throw new Error('behind it');
        for (const [i, byte] of text.entries())
          if (byte !== body[i] && byte !== 0x2a) throw new Error(`changed: ${text}`);
        // What is only looked at finds the same, whatever the cuts.
        const audit = scanned(automaton, body, at, false);
        if (audit.names.join() !== 'K0' || !audit.text.equals(body)) throw new Error(`not seen: ${body}`);
      }
    }),
    { numRuns: 300 },
  );
  t.pass();
});

t.test('streams of pieces of values: the same as a plain search, for every cut', async (t) => {
  const values = ['abababab', 'abababac', 'secret-token-1', 'token-1-secret', '%41bcdefgh', 'aaaaaaaaaaaab'];
  const automaton = automatonOf(...values);
  const piece = fc.oneof(
    fc.constantFrom(...values),
    fc.tuple(fc.constantFrom(...values), fc.nat(13)).map(([value, n]) => value.slice(0, n)),
    fc.constantFrom('a', 'ab', '%61', '\\u0061', '%', '\\', '\\u', '%4', '\\u00', ',', '%25', '\\ud83d'),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 25 }), cuts, (pieces, at) => {
      const body = Buffer.from(pieces.join(''));
      const whole = scanned(automaton, body, []);
      const cut = scanned(automaton, body, at);
      if (!cut.text.equals(whole.text)) throw new Error(`${cut.text} for ${whole.text}`);
      if (cut.names.join() !== whole.names.join()) throw new Error(`${cut.names} for ${whole.names}`);
      const audit = scanned(automaton, body, at, false);
      if (audit.names.join() !== whole.names.join()) throw new Error(`${audit.names} for ${whole.names}`);
      for (const [i, value] of values.entries()) {
        if (body.includes(value) && !whole.names.includes(`K${i}`)) throw new Error(`${value} not found`);
        if (whole.text.includes(value)) throw new Error(`${value} survives`);
      }
    }),
    { numRuns: 3000 },
  );
  t.pass();
});

t.test('what holds no value comes out as it is, and at once', async (t) => {
  const automaton = automatonOf('tok_Abc123xyz789', 'alice@example.com');
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 3000 }), cuts, (bytes, at) => {
      const body = Buffer.from(bytes);
      const { text, names } = scanned(automaton, body, at);
      if (!text.equals(body) || names.length > 0) throw new Error('changed');
    }),
    { numRuns: 300 },
  );
  const scanner = new EchoScanner(automaton);
  t.equal(scanner.redact(Buffer.from('data: hello\n\n'), false).toString(), 'data: hello\n\n');
  t.equal(
    scanner.redact(Buffer.from('data: tok_A'), false).toString(),
    'data: ',
    'but what may be a beginning',
  );
  t.equal(scanner.redact(Buffer.from('x\n\n'), false).toString(), 'tok_Ax\n\n', 'until it is none');
  t.equal(scanner.redact(Buffer.from('%74%6'), false).toString(), '');
  t.equal(scanner.redact(Buffer.from('F!'), false).toString(), '%74%6F!');
  t.equal(scanner.redact(Buffer.from('tok_Abc'), true).toString(), 'tok_Abc', 'nor at the end');
});

t.test('values under eight bytes are not looked for; names of all that end together are given', async (t) => {
  t.same(echoForms('1234567'), []);
  t.ok(echoForms('12345678').length >= 5);
  const automaton = automatonOf('long-secret-1', 'secret-1', 'cret-1xx');
  const found = scanned(automaton, Buffer.from('a long-secret-1 b'), []);
  t.same(found, { text: Buffer.from('a ************* b'), names: ['K0', 'K1'] });
});

t.test('work is linear in the bytes, also where all of them are beginnings', async (t) => {
  const automaton = automatonOf(`${'a'.repeat(2000)}b`);
  let steps = 0;
  const step = automaton.step.bind(automaton);
  automaton.step = (state, byte) => {
    steps++;
    return step(state, byte);
  };
  for (const body of [
    'a'.repeat(100_000),
    '%61'.repeat(33_333),
    '\\u0061a'.repeat(14_285),
    'a%61%'.repeat(20_000),
  ]) {
    steps = 0;
    const cut = Array.from({ length: 50 }, (_, i) => i * 1999);
    const { text } = scanned(automaton, Buffer.from(body), cut);
    t.equal(text.length, body.length);
    t.ok(steps <= 3 * body.length, `${steps} steps for ${body.length} bytes`);
  }
});
