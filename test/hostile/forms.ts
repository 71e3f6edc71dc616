const hexOf = (bytes: Buffer): string => bytes.toString('hex');
const escaped = (bytes: Buffer, which: RegExp, to: (code: number) => string): string =>
  bytes.toString('latin1').replace(which, (c) => to(c.charCodeAt(0)));
const percent = (code: number): string => `%${code.toString(16).padStart(2, '0')}`;
const unicode = (code: number): string => `\\u${code.toString(16).padStart(4, '0')}`;

const encoders = {
  plain: (bytes: Buffer) => bytes.toString('latin1'),
  percent: (bytes: Buffer) => escaped(bytes, /[^\w.~-]/g, percent),
  Percent: (bytes: Buffer) => escaped(bytes, /[^\w.~-]/g, (code) => percent(code).toUpperCase()),
  allpercent: (bytes: Buffer) => escaped(bytes, /[\s\S]/g, percent),
  plus: (bytes: Buffer) => escaped(bytes, /[^\w.~-]/g, (c) => (c === 32 ? '+' : percent(c))),
  hex: (bytes: Buffer) => hexOf(bytes),
  Hex: (bytes: Buffer) => hexOf(bytes).toUpperCase(),
  base64: (bytes: Buffer) => bytes.toString('base64'),
  base64a: (bytes: Buffer) => Buffer.concat([Buffer.from('a'), bytes]).toString('base64'),
  base64ab: (bytes: Buffer) => Buffer.concat([Buffer.from('ab'), bytes]).toString('base64'),
  base64url: (bytes: Buffer) => bytes.toString('base64url'),
  json: (bytes: Buffer) => JSON.stringify(bytes.toString('latin1')),
  slashes: (bytes: Buffer) => JSON.stringify(bytes.toString('latin1')).replaceAll('/', '\\/'),
  unicode: (bytes: Buffer) => escaped(bytes, /[\s\S]/g, unicode),
  some: (bytes: Buffer) => escaped(bytes, /[aeiouAEIOU"\\%]/g, unicode),
};

/** The forms in which an upstream repeats bytes; the text that comes out is latin1. */
export type Form = keyof typeof encoders;
export const forms = Object.keys(encoders) as Form[];
export const encode = (form: Form, bytes: Buffer): string => encoders[form](bytes);
