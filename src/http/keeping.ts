import { ownerProblem } from './caller.ts';
import { masterPasswordBody, rotateCaBody } from './operator-schemas.ts';
import { json, replyTo } from './reply.ts';
import { type Route, route } from './route.ts';
import type { FrontParts } from './routes.ts';

const overlapSeconds = 7 * 86_400;

/** What keeps the broker's own keys and data: the master password, the backup, the CA. Owners only. */
export function keepingRoutes({ keeping, ca, audit, clock }: FrontParts): Route[] {
  const asked = { auth: 'operator', vault: 'none' } as const;
  return [
    route('PUT', '/v1/master-password', { ...asked, body: masterPasswordBody }, async (call) => {
      const { identity, body, by, failed } = call;
      const refusal = ownerProblem(identity);
      if (refusal) return refusal;
      const changed = await keeping.changeMasterPassword({ ...body, by });
      if (!changed.ok && changed.problem.code === 'forbidden') return failed(changed.problem);
      return replyTo(changed);
    }),

    route('POST', '/v1/backup', asked, async ({ identity, incoming, by }) => {
      const refusal = ownerProblem(identity);
      if (refusal) return refusal;
      const made = await keeping.backup(incoming.over);
      const record = { request_id: by.request_id, actor: by.actor, action: 'backup.create' };
      const time = new Date(clock.now()).toISOString();
      audit.append({ time, kind: 'control', ...record, status: made.ok ? 200 : 500 });
      return replyTo(made, (body) => ({
        status: 200,
        headers: {
          'content-type': 'application/octet-stream',
          'content-disposition': `attachment; filename="broker-${time.slice(0, 10)}.backup"`,
        },
        body,
      }));
    }),

    route('POST', '/v1/ca/rotate', { ...asked, body: rotateCaBody }, async ({ identity, body, by }) => {
      const refusal = ownerProblem(identity);
      if (refusal) return refusal;
      const overlapMs = body.now === true ? 0 : (body.overlap_seconds ?? overlapSeconds) * 1000;
      return replyTo(await ca.rotate({ overlapMs, by }), (rotation) => json(rotation, 201));
    }),
  ];
}
