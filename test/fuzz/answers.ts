import { answerDefects } from './answer-defects.ts';
import { chunksOf, content, type Draft, insertField, otherFields, render, trailerLines } from './grammar.ts';
import { mutate } from './mutate.ts';
import type { Random } from './random.ts';

/** What an upstream answers to one request, and what its maker knows about it. */
export interface AnswerExample {
  readonly bytes: Buffer;
  readonly method: 'GET' | 'HEAD' | 'POST';
  /** The client's version: HTTP/1.`minor`. */
  readonly minor: 0 | 1;
  readonly label: string;
  /** What the client has to get; null: not known. */
  readonly sound: { readonly status: string; readonly content: string } | null;
  /** The client must not take any of it for a whole answer. */
  readonly refused: boolean;
}

const finals = [200, 200, 200, 201, 204, 205, 206, 301, 304, 404, 500, 599];

function interim(random: Random): Draft {
  const fields = otherFields(random);
  return {
    line: `HTTP/1.1 ${random.pick(['100 Continue', '103 Early Hints', '102 ', '199 \xe9'])}`,
    fields: fields.length > 0 ? fields : [['Link', ' </a>; rel=preload']],
    content: null,
    chunks: null,
    trailers: [],
    tail: '',
  };
}

/** An answer that has to come through. */
function finalAnswer(random: Random, method: AnswerExample['method']): [Draft, string] {
  const status = random.pick(finals);
  const minor = random.chance(15) ? 0 : 1;
  const draft: Draft = {
    line: `HTTP/1.${minor} ${status}${random.pick([' OK', ' OK', '', ' ', ' no \xe9 such:  thing'])}`,
    fields: otherFields(random),
    content: null,
    chunks: null,
    trailers: [],
    tail: '',
  };
  if (random.chance(20)) insertField(random, draft, 'Set-Cookie', ' a=b');
  if (random.chance(15))
    insertField(random, draft, 'Connection', random.pick([' close', ' keep-alive', ' x, Close']));
  if (random.chance(5))
    insertField(random, draft, random.pick(['Host', 'X-Vault', 'Expect']), ' of-an-answer');
  const body = content(random, 'HTTP/1.1 200 OK\r\nX-Bait: 1\r\nContent-Length: 0\r\n\r\n');
  const bodiless = method === 'HEAD' || status === 204 || status === 304;
  const framing = random.below(10);
  if (framing < 4) {
    insertField(random, draft, random.pick(['Content-Length', 'content-length']), ` ${body.length}`);
    if (!bodiless) draft.content = body;
  } else if (framing < 8 && minor === 1) {
    insertField(random, draft, 'Transfer-Encoding', random.pick([' chunked', ' Chunked', 'chunked\t']));
    if (!bodiless) {
      draft.chunks = chunksOf(random, body);
      draft.trailers = trailerLines(random);
    }
  } else if (!bodiless) draft.tail = body;
  return [draft, bodiless ? '' : body];
}

/** One answer: sound, or with a defect, or mutated at random; interim answers before it, sometimes bytes behind it. */
export function answerExample(random: Random): AnswerExample {
  const kind = random.below(100);
  const method = random.pick(['GET', 'GET', 'GET', 'HEAD', 'POST'] as const);
  const minor = random.chance(10) ? 0 : 1;
  const drafts = Array.from({ length: random.chance(25) ? random.between(1, 3) : 0 }, () => interim(random));
  const [last, body] = finalAnswer(random, method);
  drafts.push(last);
  let sound: AnswerExample['sound'] = null;
  let label = 'mutated';
  if (kind < 45) {
    label = 'sound';
    sound = { status: last.line.slice(9, 12), content: body };
  } else if (kind < 75) {
    const draft = random.pick(drafts);
    if (draft.fields.length === 0) draft.fields.push(['X', ' 1']);
    const defect = random.pick(answerDefects.filter(({ needs }) => needs(draft)));
    defect.apply(random, draft, '');
    label = defect.name;
  }
  const surplus = random.pick([
    '\r\n',
    '\0',
    'x',
    'HTTP/1.1 200 OK\r\nX-Bait: 1\r\nContent-Length: 4\r\n\r\nbait',
  ]);
  // Behind an answer that ends with the connection it would be body.
  if (last.tail === '' && (last.content ?? last.chunks) !== null && random.chance(15)) last.tail = surplus;
  const text = drafts.map(render).join('');
  return {
    bytes: Buffer.from(kind < 75 ? text : mutate(random, text, 'other.test'), 'latin1'),
    method,
    minor,
    label,
    sound,
    refused: kind >= 45 && kind < 75,
  };
}
