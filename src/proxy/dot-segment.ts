/** As often as a careless server might decode a path. */
const rounds = 4;
// What follows a `;` is a parameter to servers that know them, and a NUL ends the name to others.
const dots = /(?:^|[/\\])\.\.?(?:[;\0/\\]|$)/;

/** Whether a segment of ASCII, decoded as often as a careless server might, holds `.` or `..` between separators. Linear. */
export function isDotSegment(segment: string): boolean {
  let text = segment;
  for (let i = 0; i < rounds; i++) {
    if (text.includes('.') && dots.test(text)) return true;
    if (!text.includes('%')) return false;
    const decoded = decodeOnce(text);
    if (decoded.length === text.length) return false;
    text = decoded;
  }
  return false;
}

function decodeOnce(text: string): string {
  const out = Buffer.allocUnsafe(text.length);
  let length = 0;
  for (let i = 0; i < text.length; i++) {
    let code = text.charCodeAt(i);
    if (code === 0x25 && i + 2 < text.length) {
      const high = hex(text.charCodeAt(i + 1));
      const low = hex(text.charCodeAt(i + 2));
      if (high >= 0 && low >= 0) {
        code = high * 16 + low;
        i += 2;
      }
    }
    out[length++] = code;
  }
  return out.latin1Slice(0, length);
}

/** Of an ASCII hex digit; -1 for anything else. */
export function hex(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  const letter = code | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}
