import type { Random } from './random.ts';

/** One chunk as it is written; each part may be spoilt on its own. */
export interface Chunk {
  size: string;
  extension: string;
  lineEnd: string;
  data: string;
  dataEnd: string;
}

/** A message before it is bytes: the parts that a defect can be put into. Latin1 throughout. */
export interface Draft {
  line: string;
  /** Name, and all that stands between the colon and the line's end. */
  fields: [name: string, raw: string][];
  /** A body that its head counts, or null. */
  content: string | null;
  /** A chunked body, the last chunk included, or null. */
  chunks: Chunk[] | null;
  trailers: [name: string, raw: string][];
  /** What follows the body. */
  tail: string;
}

export function render(draft: Draft): string {
  let text = `${draft.line}\r\n`;
  for (const [name, raw] of draft.fields) text += `${name}:${raw}\r\n`;
  text += `\r\n${draft.content ?? ''}`;
  if (draft.chunks !== null) {
    for (const { size, extension, lineEnd, data, dataEnd } of draft.chunks)
      text += size + extension + lineEnd + data + dataEnd;
    for (const [name, raw] of draft.trailers) text += `${name}:${raw}\r\n`;
    text += '\r\n';
  }
  return text + draft.tail;
}

const plainNames = [
  'Accept',
  'X-Trace',
  'x-trace',
  'X-TRACE',
  'User-Agent',
  'Cookie',
  'Authorization',
  'If-Match',
  'Content-Type',
  'X',
  "!#$%&'*+-.^_`|~0",
];
/** Names that are one step away from a name that matters. */
const nearNames = [
  'X_Under_Score',
  'X-Api-Key',
  'x-api-key',
  'X_Api_Key',
  'x-api_key',
  'Content_Length',
  'content-length_',
  'Transfer_Encoding',
  'TRANSFER-ENCODING-',
  'X-Content-Length',
  'Host_',
  'Proxy_Authorization',
  'x_vault',
];
const values = [
  '',
  'a',
  '5',
  'chunked',
  'close',
  'text/plain, */*;q=0.8',
  'a\tb  c',
  'caf\xe9 \x80\xff',
  '"quoted, \\" and: so on"',
  'GET / HTTP/1.1',
  'x'.repeat(300),
];
const hopByHop: readonly (readonly [string, string])[] = [
  ['Keep-Alive', 'timeout=5'],
  ['TE', 'trailers'],
  ['te', 'gzip, chunked'],
  ['Trailer', 'X-Sum'],
  ['Proxy-Connection', 'keep-alive'],
  ['Proxy-Authenticate', 'Basic realm="x"'],
  ['Upgrade', 'h2c'],
  ['HTTP2-Settings', 'AAMAAABkAARAAAAAAAIAAAAA'],
];
const nominations = [
  'X-Trace',
  'x-hop',
  'Accept',
  'AUTHORIZATION',
  'x-api-key',
  'te',
  'Content-Length',
  'X-Sum',
];

function padded(random: Random, value: string): string {
  return random.pick(['', ' ', ' ', ' ', '  ', '\t', ' \t ']) + value + random.pick(['', '', '', ' ', '\t']);
}

/** A field that goes through a proxy as it is, or nearly one that doesn't. */
function endToEndField(random: Random): [string, string] {
  const name = random.chance(70) ? random.pick(plainNames) : random.pick(nearNames);
  return [name, padded(random, random.pick(values))];
}

/** Fields of any kind but those that frame; without `close`, so that the connection goes on. */
export function otherFields(random: Random): [string, string][] {
  const list: [string, string][] = [];
  for (let n = random.below(7); n > 0; n--) list.push(endToEndField(random));
  if (random.chance(25)) list.push([...random.pick(hopByHop)]);
  if (random.chance(25)) {
    const options = [random.pick(nominations), random.pick(['keep-alive', 'Keep-Alive', '', 'upgrade'])];
    const name = random.pick(['Connection', 'connection', 'CONNECTION']);
    list.push([name, padded(random, options.join(random.pick([',', ', ', ' ,\t'])))]);
    if (random.chance(30)) list.push(['Connection', random.pick(nominations)]);
  }
  return list;
}

/** Puts a field somewhere among others. */
export function insertField(random: Random, draft: Draft, name: string, raw: string): void {
  draft.fields.splice(random.below(draft.fields.length + 1), 0, [name, raw]);
}

/** A body; often one that would be a message if its bounds were lost. */
export function content(random: Random, bait: string): string {
  if (random.chance(25)) return bait;
  if (random.chance(15)) return '';
  if (random.chance(20)) return random.pick(['\r\n', '0\r\n\r\n', '\n', '\0\xff\x80', '5\r\n', '\r\n\r\n']);
  let text = '';
  const length = random.chance(5) ? random.between(1000, 20_000) : random.between(1, 60);
  while (text.length < length) text += String.fromCharCode(random.below(256));
  return text;
}

/** `text` in chunks with sizes in all their legal spellings. */
export function chunksOf(random: Random, text: string): Chunk[] {
  const extensions = ['', '', '', '', ';a', ';a=b', ';a="b c"', ';a=b;c=d', '; a=b', ';x=chunked', ';'];
  const made = (size: string, data: string, dataEnd: string): Chunk => {
    const zeros = random.chance(10) ? '0'.repeat(random.between(1, 12 - size.length)) : '';
    return { size: zeros + size, extension: random.pick(extensions), lineEnd: '\r\n', data, dataEnd };
  };
  const list: Chunk[] = [];
  for (let at = 0; at < text.length; ) {
    const data = text.slice(at, at + random.between(1, Math.max(1, text.length)));
    const hex = data.length.toString(16);
    list.push(made(random.chance(30) ? hex.toUpperCase() : hex, data, '\r\n'));
    at += data.length;
  }
  list.push(made('0', '', ''));
  return list;
}

/** Trailer lines without a framing field. */
export function trailerLines(random: Random): [string, string][] {
  const list: [string, string][] = [];
  if (random.chance(60)) return list;
  for (let n = random.between(1, 3); n > 0; n--) {
    list.push(
      random.chance(60)
        ? endToEndField(random)
        : [random.pick(['X-Sum', 'Host', 'Connection', 'TE', 'Trailer', 'X-Vault', 'x-api-key']), ' t'],
    );
  }
  return list;
}
