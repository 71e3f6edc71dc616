import { chunksOf, content, type Draft, insertField, otherFields, render, trailerLines } from './grammar.ts';
import { mutate } from './mutate.ts';
import type { Random } from './random.ts';
import { requestDefects } from './request-defects.ts';

/** What a client sends on one connection, and what its maker knows about it. */
export interface RequestExample {
  readonly bytes: Buffer;
  /** The last message of every example: where its answer comes, the connection is still in step. */
  readonly sentinel: string;
  /** How the stream was made, in a few words. */
  readonly label: string;
  /** Messages, in order, that are sound whatever follows them. */
  readonly sound: readonly { readonly method: string; readonly target: string; readonly content: string }[];
  /** What has to become of the message behind the sound ones; null: not known, or there is none. */
  readonly refused: boolean;
}

const methods = ['GET', 'GET', 'POST', 'POST', 'PUT', 'HEAD', 'OPTIONS', 'DELETE', 'PATCH', 'M-SEARCH'];

/** A request that has to go through. `last`: it may end the connection. */
function soundRequest(random: Random, authority: string, last: boolean): [Draft, RequestExample['sound'][0]] {
  const method = random.pick(random.chance(3) ? ['get', "!#$%&'*+-.^_`|~0", 'GETS'] : methods);
  const path = random.pick([
    '/',
    '/a',
    '/a/b?c=d',
    '/%2e%2e//x?',
    "/!$&'()*+,;=:@-._~",
    '/a?GET=/&HTTP/1.1',
    '/[]',
  ]);
  const minor = last && random.chance(15) ? 0 : 1;
  let target = path;
  let wire = path;
  if (random.chance(8)) wire = `${random.pick(['http', 'HTTP'])}://${authority}${path}`;
  else if (method === 'OPTIONS' && random.chance(30)) {
    target = '*';
    wire = '*';
  }
  const draft: Draft = {
    line: `${method} ${wire} HTTP/1.${minor}`,
    fields: otherFields(random),
    content: null,
    chunks: null,
    trailers: [],
    tail: '',
  };
  insertField(
    random,
    draft,
    random.pick(['Host', 'Host', 'host', 'HOST']),
    random.pick([' ', '', '\t']) + authority,
  );
  if (random.chance(10)) insertField(random, draft, 'X-Vault', ' other');
  if (random.chance(10)) insertField(random, draft, 'Proxy-Authorization', ' Basic eDp5');
  if (last && random.chance(10))
    insertField(random, draft, 'Connection', random.pick([' close', ' x-hop, Close']));
  let body = '';
  const framing = random.below(10);
  if (framing < 6) {
    body = content(random, `GET /smuggled HTTP/1.1\r\nHost: ${authority}\r\n\r\n`);
    if (framing < 3 || minor === 0) {
      draft.content = body;
      insertField(random, draft, random.pick(['Content-Length', 'content-length']), ` ${body.length}`);
    } else {
      draft.chunks = chunksOf(random, body);
      draft.trailers = trailerLines(random);
      insertField(random, draft, 'Transfer-Encoding', random.pick([' chunked', ' Chunked', 'chunked\t']));
    }
    if (random.chance(10)) insertField(random, draft, 'Expect', ' 100-continue');
  } else if (method === 'GET' && random.chance(10)) {
    draft.fields.push(['Connection', ' Upgrade'], ['Upgrade', ' websocket']);
  }
  return [draft, { method, target, content: body }];
}

/** One stream for a connection to `authority`: sound, or sound up to a defect, or mutated at random. */
export function requestExample(random: Random, authority: string): RequestExample {
  const kind = random.below(100);
  const drafts: Draft[] = [];
  const sound: RequestExample['sound'][0][] = [];
  const count = random.pick([1, 1, 1, 2, 2, 3]);
  let label = 'sound';
  for (let i = 0; i < count; i++) {
    const [draft, what] = soundRequest(random, authority, kind < 45 && i === count - 1);
    drafts.push(draft);
    sound.push(what);
  }
  if (kind >= 45 && kind < 75) {
    const at = random.below(count);
    const applicable = requestDefects.filter(({ needs }) => needs(drafts[at]));
    const defect = random.pick(applicable);
    defect.apply(random, drafts[at], authority);
    label = defect.name;
    sound.length = at;
  }
  // One empty line before a request line is read over.
  for (const draft of drafts.slice(0, sound.length)) if (random.chance(5)) draft.line = `\r\n${draft.line}`;
  const sentinel = `GET /sentinel HTTP/1.1\r\nHost: ${authority}\r\n\r\n`;
  let text = drafts.map(render).join('');
  if (kind >= 75) {
    text = mutate(random, text, authority);
    label = 'mutated';
    sound.length = 0;
  }
  // A tunnel takes what doesn't begin like a request for another protocol: the stream is not the codec's then.
  if (!/^[A-Z]{1,20} /.test(text)) {
    text = `GET /first HTTP/1.1\r\nHost: ${authority}\r\n\r\n${text}`;
    if (label !== 'mutated') sound.unshift({ method: 'GET', target: '/first', content: '' });
  }
  return {
    bytes: Buffer.from(text + sentinel, 'latin1'),
    sentinel,
    label,
    sound,
    refused: kind >= 45 && kind < 75,
  };
}
