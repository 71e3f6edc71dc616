/** Shorter values aren't looked for: they stand in answers by chance. In bytes. */
const shortestEcho = 8;

/**
 * The forms of a value that an answer may hold, latin1: as it is, in hex, in base64 at any offset. What is escaped
 * (percent-encoding, JSON) is undone where the answer is read. Empty for a value that isn't looked for.
 */
export function echoForms(value: string): string[] {
  const forms = new Set<string>();
  const utf8 = Buffer.from(value, 'utf8');
  addForms(forms, utf8);
  // In a field it goes as latin1, and may come back as such.
  if (utf8.length !== value.length && !/[^\0-\xff]/.test(value))
    addForms(forms, Buffer.from(value, 'latin1'));
  return [...forms];
}

function addForms(forms: Set<string>, bytes: Buffer): void {
  if (bytes.length < shortestEcho) return;
  const plain = bytes.toString('latin1');
  forms.add(plain);
  // RFC 1866 8.2.1: a form has `+` for a space.
  if (plain.includes(' ')) forms.add(plain.replaceAll(' ', '+'));
  // In JSON it stays as it is, and is undone with what else is escaped there.
  const undone = plain.replace(/%([0-9a-fA-F]{2})/g, (_, digits) =>
    String.fromCharCode(Number.parseInt(digits, 16)),
  );
  if (undone.length >= shortestEcho) forms.add(undone);
  const hex = bytes.toString('hex');
  forms.add(hex).add(hex.toUpperCase());
  for (let offset = 0; offset < 3; offset++) {
    const base64 = base64At(bytes, offset);
    forms.add(base64).add(base64.replaceAll('+', '-').replaceAll('/', '_'));
  }
}

/** The characters of base64 that nothing but these bytes decides, where `offset` bytes (mod 3) stand before them. */
function base64At(bytes: Buffer, offset: number): string {
  const before = Buffer.alloc(offset);
  const whole = Buffer.concat([before, bytes]);
  const from = Math.ceil((offset * 8) / 6);
  const to = Math.floor((whole.length * 8) / 6);
  return whole.toString('base64').slice(from, to);
}
