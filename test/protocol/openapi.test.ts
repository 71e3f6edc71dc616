/** The description of the API: whole, true to the rules, and true of every route. */
import { readdirSync, readFileSync } from 'node:fs';
import fc from 'fast-check';
import t from 'tap';
import { problems } from '../../src/actors/vault/problem.ts';
import { checkProposal } from '../../src/actors/vault/proposal-rules.ts';
import { checkServices } from '../../src/actors/vault/service-rules.ts';
import { allServicesBody, proposalBody, servicesBody } from '../../src/http/schemas.ts';
import { type Contract, startContract } from './contract.ts';

let api: Contract;
let session: string;
let agent: string;

t.before(async () => {
  api = await startContract(t);
  session = await api.broker.session();
  const invite = await api.own('POST', '/v1/agents/invites', { vaults: ['default'], name: 'ci' });
  const joined = await api.ask('POST', new URL(invite.json.invite_url).pathname);
  agent = joined.json.BROKER_SESSION_TOKEN;
});

/** What every route of the API has to be told apart by, with something in the place of each parameter. */
function filled(path: string): string {
  const values: Record<string, string> = {
    id: '999999',
    vault: 'default',
    host: 'nowhere.test',
    key: 'NOWHERE',
    session: 'nowhere',
    agent: 'nowhere',
    operator: 'nowhere',
    token: 'nowhere',
  };
  return path.replace(/\{(\w+)\}/g, (_, name: string) => values[name]);
}

t.test('the document is whole', async (t) => {
  const { document, operations } = api;
  t.equal(document.openapi, '3.1.0');
  t.same(document.servers, [{ url: api.broker.address }]);
  const ids = operations.map(({ described }) => described.operationId);
  t.equal(new Set(ids).size, ids.length, 'operation ids are unique');
  const refs = JSON.stringify(document).match(/"#\/[^"]+"/g) ?? [];
  t.ok(refs.length > 50);
  for (const ref of new Set(refs)) {
    const found = JSON.parse(ref)
      .slice(2)
      .split('/')
      .reduce((at: Record<string, unknown>, part: string) => at?.[part], document);
    t.ok(found && Object.keys(found).length > 0, `${ref} leads somewhere`);
  }
  for (const { method, path, described } of operations) {
    const name = `${method} ${path}`;
    t.ok(described.summary, `${name} says what it is for`);
    t.ok(
      Object.keys(described.responses).some((status) => status < '300'),
      `${name} can succeed`,
    );
    for (const status of ['400', '421', '500', '503']) t.ok(described.responses[status], `${name} ${status}`);
    const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, found]) => found);
    const named = (document.paths[path].parameters ?? []).map((each: { name: string }) => each.name);
    t.same(named, inPath, `${name} describes its parameters`);
  }
});

t.test('every route of the API is described, and nothing else', async (t) => {
  // What there is, from the sources: a route that is only made with some option counts too. Pages are none of it.
  const folder = new URL('../../src/http/', import.meta.url);
  const pages = ['approve-page.ts', 'login-page.ts', 'route.ts'];
  const files = readdirSync(folder).filter((name) => name.endsWith('.ts') && !pages.includes(name));
  const made = files.flatMap((file) => {
    const source = readFileSync(new URL(file, folder), 'utf8');
    const text = source
      .replaceAll(/`\$\{path\}/g, '`/v1/vaults/{vault}/services')
      .replaceAll(/, path,/g, ", '/v1/vaults/{vault}/services',");
    return [...text.matchAll(/\broute\(\s*'([A-Z]+)',\s*['`]([^'`]+)['`]/g)].map(
      ([, method, path]) => `${method} ${path}`,
    );
  });
  const described = api.operations
    .map(({ method, path }) => `${method} ${path}`)
    .filter((name) => name !== 'GET /approve/{id}');
  t.same([...described].sort(), [...made].sort());
  t.ok(described.length >= 45, `${described.length} operations`);
});

t.test(
  'every error is documented: in the description, and in docs/protocol.md with its status',
  async (t) => {
    const { enum: codes } = api.document.components.schemas.Problem.properties.error;
    t.same(codes, Object.keys(problems));
    const guide = readFileSync(new URL('../../docs/protocol.md', import.meta.url), 'utf8');
    const rows = guide.slice(guide.indexOf('\n## Errors')).match(/^\| \d.*$/gm) ?? [];
    for (const [code, { status, message }] of Object.entries(problems)) {
      const row = rows.find((each) => each.includes(`\`${code}\``));
      t.ok(row?.split('|')[1].includes(String(status)), `${code} is in the table with ${status}`);
      t.match(message, /^[A-Z].{10,}\.$/s, `${code} says something`);
    }
    const inTable = rows
      .flatMap((row) => row.split('|')[2].match(/`[a-z_]+`/g) ?? [])
      .map((code) => code.slice(1, -1));
    const fields = ['field', 'key', 'proposal_hint', 'help', 'confirm', 'quota', 'limit', 'applied'];
    t.same(
      inTable.filter((code) => !(code in problems) && !fields.includes(code)),
      [],
      'and nothing that there is not',
    );
  },
);

t.test('the guide tells an agent what it has to know, and what to do about each error', async (t) => {
  const guide = await (await fetch(`${api.broker.address}/v1/skill.md`)).text();
  for (const word of [
    ...[
      'BROKER_SESSION_TOKEN',
      'BROKER_ADDR',
      'X-Vault',
      'HTTPS_PROXY',
      'approval_url',
      'available_credentials',
    ],
    ...[
      `GET ${api.broker.address}/discover`,
      `POST ${api.broker.address}/v1/proposals`,
      '?wait=60',
      '/v1/explain',
    ],
    ...[
      'every 3 seconds for the first 30 seconds',
      'every 10 seconds after',
      'Never look for credential values',
    ],
    ...[
      'applied',
      'rejected',
      'expired',
      'cancelled',
      '"substitutions"',
      'placeholder',
      '"action": "delete"',
    ],
  ])
    t.ok(guide.includes(word), word);
  const rows = guide.match(/^\| \d.*$/gm) ?? [];
  for (const [code, { status }] of Object.entries(problems)) {
    const row = rows.find((each) => each.split('|')[1].includes(`\`${code}\``));
    t.ok(row?.split('|')[1].includes(String(status)), `${status} ${code}`);
  }
  const example = /```[^{]*(\{.*\})\n```/s.exec(guide)?.[1] ?? '';
  t.match(
    await api.ask('POST', '/v1/proposals', { token: session, body: JSON.parse(example) }),
    { status: 201 },
    'its example works',
  );
  for (const secret of [session, agent, api.owner]) t.notOk(guide.includes(secret));
});

t.test('what the rules accept, the schemas accept: both say the same of what comes in', async (t) => {
  const good = {
    host: [
      'a.example.com',
      '*.b.example.com',
      '[::1]:8443',
      'API.Example.com.',
      '10.0.0.1',
      'localhost',
      'a_b.test',
    ],
    key: ['K', 'A_KEY2'],
    text: ['', 'text', 'é'.repeat(500), '😀'.repeat(500)],
    headers: [{ 'X-Key': '{{ K }}' }, { "x!#$%&'*+-.^_`|~": 'static' }, { A: '', B: 'é {{K}}' }],
    placeholder: ['__id__', 'a.bc', '~~~1', '1234-', `__${'x'.repeat(126)}`],
    obtain: ['https://a.example/x?y#z', 'HTTP://a.example', `https://a.example/${'x'.repeat(482)}`],
  };
  const bad = fc.constantFrom<unknown>(
    '',
    null,
    7,
    {},
    [],
    'a b',
    'x'.repeat(6000),
    '\ud800',
    '{{',
    undefined,
  );
  const field = (values: readonly unknown[]) =>
    fc.oneof({ weight: 20, arbitrary: fc.constantFrom(...values) }, { weight: 1, arbitrary: bad });
  const some = (value: fc.Arbitrary<unknown>) => fc.option(value, { nil: undefined });
  const auth = fc.oneof(
    fc.record({ type: fc.constant('bearer'), token: field(good.key) }),
    fc.record({ type: fc.constant('basic'), username: field(good.key), password: some(field(good.key)) }),
    fc.record({
      type: fc.constant('api-key'),
      key: field(good.key),
      header: some(field(['X-Key', 'authorization'])),
      prefix: some(field(['', 'Token ', 'é'.repeat(8192)])),
    }),
    fc.record({ type: fc.constant('custom'), headers: field(good.headers) }),
    fc.record({ type: fc.constant('passthrough') }),
    fc.record({ type: field(['bearer', 'oauth']), token: some(field(good.key)), extra: some(field(['x'])) }),
  );
  const surface = fc.uniqueArray(fc.constantFrom('path', 'query', 'header'), { minLength: 1 });
  const substitutions = fc.uniqueArray(
    fc.record({
      key: field(good.key),
      placeholder: field(good.placeholder),
      in: some(fc.oneof({ weight: 9, arbitrary: surface }, bad)),
    }),
    { selector: (each) => each.placeholder, maxLength: 3 },
  );
  const service = fc.record({
    host: field(good.host),
    description: some(field(good.text)),
    auth: some(auth),
    substitutions: some(substitutions),
    enabled: some(field([true, false])),
  });
  const unique = <T extends { host?: unknown }>(each: fc.Arbitrary<T>, maxLength: number) =>
    fc.uniqueArray(each, { selector: ({ host }) => String(host), maxLength });
  const change = fc.tuple(field(['set', 'delete']), service).map(([action, each]) => ({ action, ...each }));
  const plain = fc.record({ action: fc.constant('delete'), host: field(good.host) });
  const slot = fc.record({
    action: field(['set']),
    key: field(['K', 'L', 'M', 'N']),
    description: some(field(good.text)),
    obtain: some(field(good.obtain)),
    obtain_instructions: some(field(['x'.repeat(1000)])),
    value: some(field(['v', 'é\n'])),
  });
  const slots = fc.uniqueArray(
    fc.oneof(slot, fc.record({ action: fc.constant('delete'), key: field(good.key) })),
    {
      selector: ({ key }) => key,
      maxLength: 4,
    },
  );
  const proposal = fc.record({
    services: some(unique(fc.oneof(change, plain), 3)),
    credentials: some(slots),
    message: some(field(['x'.repeat(2000), '😀'.repeat(2000)])),
    user_message: some(field(['x'.repeat(5000)])),
  });
  // As JSON has it: no undefined.
  const json = <T>(value: fc.Arbitrary<T>) => value.map((each) => JSON.parse(JSON.stringify(each)));

  const accepted = { proposals: 0, all: 0, some: 0 };
  fc.assert(
    fc.property(json(proposal), (body) => {
      if (!checkProposal(body).ok) return;
      accepted.proposals++;
      const checked = proposalBody.check(body);
      if (!checked.ok) throw new Error(checked.problem.message);
    }),
    { numRuns: 3000 },
  );
  fc.assert(
    fc.property(json(unique(service, 3)), (services) => {
      for (const [name, check, requireAuth] of [
        ['all', allServicesBody, true],
        ['some', servicesBody, false],
      ] as const) {
        if (!checkServices(services, 'services', { requireAuth }).ok) continue;
        accepted[name]++;
        const checked = check.check({ services });
        if (!checked.ok) throw new Error(`${name}: ${checked.problem.message}`);
      }
    }),
    { numRuns: 3000 },
  );
  for (const [name, count] of Object.entries(accepted)) t.ok(count > 100, `${count} ${name} were acceptable`);
});

t.test('every route refuses as it says', async (t) => {
  const { document, operations, owner } = api;
  const kinds = { agent: [session, agent], operator: [owner] } as const;
  for (const { method, path, described } of operations) {
    const name = `${method} ${path}`;
    const at = filled(path);
    const needed: string[] = (described.security ?? []).flatMap((each: object) => Object.keys(each));
    const body = described.requestBody && {};
    const asked = { vault: 'default', body };

    if (needed.length > 0) {
      t.match(
        await api.ask(method, at, asked),
        { status: 401, json: { error: 'unauthorized' } },
        `${name}: nobody`,
      );
      for (const [kind, tokens] of Object.entries(kinds)) {
        if (needed.includes(kind)) continue;
        for (const token of tokens)
          t.match(
            await api.ask(method, at, { ...asked, token }),
            { status: 403, json: { error: 'forbidden' } },
            `${name}: no ${kind}`,
          );
      }
    }
    const token = needed.includes('operator') ? owner : needed.includes('agent') ? agent : undefined;
    const may = { token, vault: 'default' };
    t.match(
      await api.ask(method, at, { ...may, headers: { host: 'evil.example' } }),
      { status: 421, json: { error: 'misdirected_request' } },
      `${name}: another host`,
    );
    if (described.requestBody) {
      const sent = (bytes: string | Uint8Array, headers = {}) =>
        api.ask(method, at, { ...may, body: bytes, headers });
      t.match(await sent('{"a":'), { status: 400, json: { error: 'invalid_json' } }, `${name}: half of JSON`);
      t.match(await sent('a=b', { 'content-type': 'text/plain' }), { status: 415 }, `${name}: a form`);
      t.match(
        await sent('[]'),
        { status: 400, json: { error: 'invalid_request', field: 'body' } },
        `${name}: a list`,
      );
      t.match(
        await sent('{"nowhere":1}'),
        {
          status: 400,
          json: { error: 'invalid_request', field: described.requestBody.required ? /./ : 'nowhere' },
        },
        `${name}: an unknown field`,
      );
      t.match(
        await sent(' '.repeat(1024 * 1024 + 1)),
        { status: 413, json: { error: 'payload_too_large' } },
        `${name}: too large`,
      );
      if (described.requestBody.required)
        t.match(await api.ask(method, at, may), { status: 400 }, `${name}: no body`);
    }
    const queries = described.parameters.filter((each: { in: string }) => each.in === 'query');
    if (queries.length > 0 && path !== '/approve/{id}') {
      t.match(
        await api.ask(method, `${at}?nowhere=1`, may),
        { status: 400, json: { field: 'nowhere' } },
        `${name}: an unknown parameter`,
      );
      const [{ name: first }] = queries;
      t.match(
        await api.ask(method, `${at}?${first}=1&${first}=1`, may),
        { status: 400, json: { field: first } },
        `${name}: one twice`,
      );
    }
    const named = described.parameters.find((each: { in: string; name: string }) => each.name === 'X-Vault');
    if (named) {
      const twice = { authorization: `Bearer ${token}`, 'x-vault': ['default', 'default'] };
      t.match(
        await api.ask(method, at, { headers: twice }),
        { status: 400, json: { field: 'X-Vault' } },
        `${name}: two vaults`,
      );
    }
    if (/\{(id|session|agent|operator|host|key)\}/.test(path) && needed.length > 0) {
      const bodies: Record<string, unknown> = {
        'PATCH /v1/vaults/{vault}/services/{host}': { enabled: true },
        'PUT /v1/operators/{operator}/password': { password: 'long enough to do' },
      };
      const answer = await api.ask(method, at, { ...may, body: bodies[name] ?? body });
      t.match(answer, { status: 404, json: { error: 'not_found' } }, `${name}: not there`);
    }
    const allowed = operations
      .filter((each) => each.path === path)
      .flatMap((each) => (each.method === 'GET' ? ['GET', 'HEAD'] : each.method));
    // The form on the page is the page's own, and no operation of the API.
    if (path === '/approve/{id}') allowed.push('POST');
    const other = await api.ask('REPORT', at, may);
    t.match(other, { status: 405, json: { error: 'method_not_allowed' } }, `${name}: another method`);
    t.same([...other.json.allow].sort(), allowed.sort(), `${name}: and which there are`);
    t.equal(other.headers.allow, other.json.allow.join(', '));
  }
  t.match(await api.ask('GET', '/v1/nowhere'), { status: 404, json: { error: 'not_found' } });
  t.match(document.components.schemas.Problem.required, ['error', 'message', 'request_id']);
});
