/**
 * An opened credential value on its way to the lanes. A long one lies in memory that all threads share, so that it is
 * there once, whatever the number of lanes; a short one is cheaper as a text.
 */
export type OpenValue = string | SharedArrayBuffer;

/** Octets up to which a value travels as a text. */
const longestText = 1024;

/** The value of these bytes (UTF-8), which are wiped. */
export function takeValue(bytes: Buffer): OpenValue {
  if (bytes.length <= longestText) {
    const text = bytes.toString('utf8');
    bytes.fill(0);
    return text;
  }
  const shared = new SharedArrayBuffer(bytes.length);
  bytes.copy(new Uint8Array(shared));
  bytes.fill(0);
  return shared;
}

export function textOf(value: OpenValue): string {
  return typeof value === 'string' ? value : Buffer.from(value).toString('utf8');
}
