import { type Attack, attack, head, type Making } from './attack.ts';

/*
 * Bodies that are requests if somebody forgets where a message ends, and connections that go on after something that
 * should have ended them.
 */

/** A request within a body. Who took it for a request would wait for more of its body: the head of what comes next. */
const inner = ({ authority, index }: Making, host: string): string =>
  `POST /s${index}~note HTTP/1.1\r\nHost: ${authority(host)}\r\nContent-Length: 120\r\n\r\nnote=`;

const chunked = (body: string): string => `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;

/** A body whose method defines none, or that its upstream doesn't wait for; a plain request comes right behind it. */
export function smuggled(making: Making): Attack {
  const { chance, mark, index } = making;
  const host = chance.pick(['bearer.test', 'key.test', 'basic.test']);
  const defines = chance.chance(30);
  const method = defines ? 'POST' : chance.pick(['GET', 'HEAD', 'DELETE', 'OPTIONS']);
  const behaviour = defines
    ? chance.pick(['early', 'earlyclose'])
    : chance.pick(['cl0', 'cl0', 'early', 'earlyclose']);
  const body = inner(making, host);
  const asChunks = chance.chance(30);
  const fields = [asChunks ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`];
  if (chance.chance(10)) fields.push('Expect: 100-continue');
  const line = `${method} /${mark(behaviour)}`;
  const first = head(making, line, host, fields);
  const sent = first + (asChunks ? chunked(body) : body);
  const follower = chance.chance(70) ? head(making, `GET /e${index}~ok`, host) : '';
  return attack({
    kind: `smuggled in ${method}`,
    host,
    text: sent + follower,
    // Who says 200 when all of a POST is there and has read none of it can't be told from who has: here it isn't all there.
    cuts: behaviour === 'early' || chance.chance(50) ? [first.length] : [],
    holdsBack: behaviour === 'early',
    answers: follower === '' ? 1 : 2,
    head: method === 'HEAD',
  });
}

/** A body that ends before its length, a sender that half-closes, or goes in the middle of something. */
export function broken(making: Making): Attack {
  const { chance, mark } = making;
  const host = chance.pick(['bearer.test', 'custom.test']);
  const body = 'b'.repeat(chance.pick([0, 1, 5_000, 70_000]));
  const behaviour = chance.pick(['ok', 'earlyclose', 'slow', 'never']);
  const announced = body.length + chance.pick([0, 0, 1, 10_000]);
  const all = head(making, `POST /${mark(behaviour)}`, host, [`Content-Length: ${announced}`]) + body;
  const text = chance.chance(30) ? all.slice(0, chance.between(1, all.length)) : all;
  return attack({ kind: 'broken off', host, text, ending: chance.pick(['end', 'leave']) });
}

/** Many requests at once, of which one or the other asks for the connection's end or an upgrade. */
export function pipelined(making: Making): Attack {
  const { chance, index } = making;
  const host = chance.pick(['bearer.test', 'key.test']);
  const count = chance.between(2, 12);
  let text = head(making, `GET /${making.mark('ok')}`, host);
  for (let i = 1; i < count; i++) {
    const fields = chance.pick<string[]>([
      ...[[], [], [], ['Connection: close'], ['Expect: 100-continue', 'Content-Length: 0']],
      ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: AA=='],
    ]);
    text += head(making, `${chance.pick(['GET', 'DELETE', 'OPTIONS'])} /p${index}x${i}~ok`, host, fields);
  }
  return attack({
    kind: 'pipelined',
    host,
    text,
    answers: count,
    ending: chance.pick(['wait', 'end', 'leave']),
  });
}

/** Upstreams that do what they may not, or nothing. */
export function oddUpstream(making: Making): Attack {
  const { chance, mark } = making;
  const host = chance.pick(['bearer.test', 'key.test', 'anywhere.test', 'audited.test']);
  const behaviour = chance.pick([
    ...['s407', 's101', 'errorfield', 'garbage', 'longhead', 'interims', 'slow', 'never', 'closed', 'reset'],
    ...[
      'closedhead',
      'closedbody',
      'two',
      'badchunk',
      'badlength',
      'both',
      'closelater',
      'closelater',
      'ok',
      's204',
    ],
  ]);
  const method = chance.pick(['GET', 'GET', 'HEAD', 'POST']);
  const fields = method === 'POST' ? ['Content-Length: 3'] : [];
  const text = head(making, `${method} /${mark(behaviour)}`, host, fields) + (method === 'POST' ? 'abc' : '');
  const ending = behaviour === 'never' ? 'leave' : 'wait';
  return attack({ kind: `upstream: ${behaviour}`, host, text, head: method === 'HEAD', ending });
}
