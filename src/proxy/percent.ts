/** Percent-encoding of values, by the platform's own encoder: linear, and fast for the longest of them. */

/** RFC 3986 3.3: what may stand in a segment as it is, without what could end it or split it in parameters. */
export function encodePath(value: string): string {
  return encodeQuery(value).replace(/%(?:2[46B]|3[AD]|40)/g, decodeURIComponent);
}

/** Unreserved only: any other character could end the parameter, or mean something to a form decoder. */
export function encodeQuery(value: string): string {
  const encoded = encodeURIComponent(value.toWellFormed());
  return encoded.replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}
