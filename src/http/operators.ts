import { invalid } from '../actors/vault/fields.ts';
import { passwordProblem } from '../actors/vault/password-hash.ts';
import { problem, type Result } from '../actors/vault/problem.ts';
import type { Secret } from '../actors/vault/secret.ts';
import { ownerProblem } from './caller.ts';
import { newOperatorBody, newPasswordBody } from './operator-schemas.ts';
import { passwordProblemOf } from './password-check.ts';
import { json, noContent, replyTo } from './reply.ts';
import { type Route, route } from './route.ts';
import type { FrontParts } from './routes.ts';

/** The humans who own vaults. Owners see and change all of them, an admin itself. */
export function operatorRoutes(front: FrontParts): Route[] {
  const { vault, passwords } = front;
  const asked = { auth: 'operator', vault: 'none' } as const;

  async function encode(password: Secret, field: string): Promise<Result<string>> {
    const wrong = passwordProblem(password.reveal(), field);
    return wrong ? { ok: false, problem: wrong } : passwords.hash(password);
  }

  return [
    route('GET', '/v1/operators', asked, async ({ identity: { name, role } }) => {
      const all = await vault.ask('operator.list', {});
      return json({ operators: all.filter((each) => role === 'owner' || each.name === name), you: name });
    }),

    route('POST', '/v1/operators', { ...asked, body: newOperatorBody }, async ({ identity, body, by }) => {
      const refusal = ownerProblem(identity);
      if (refusal) return refusal;
      const { name, role = 'admin', vaults = [], password } = body;
      if (role === 'owner' && vaults.length > 0) {
        return invalid('vaults', 'an owner administers all vaults. Leave it out, or make an admin.');
      }
      const encoded = password && (await encode(password, 'password'));
      if (encoded && !encoded.ok) return encoded.problem;
      const request = { name, role, vaults, encoded: encoded?.value, by };
      return replyTo(await vault.ask('operator.create', request), (made) => json(made, 201));
    }),

    route('DELETE', '/v1/operators/{operator}', asked, async ({ identity, params, by }) => {
      const request = { name: params.operator, by };
      return ownerProblem(identity) ?? replyTo(await vault.ask('operator.remove', request), noContent);
    }),

    route('PUT', '/v1/operators/{operator}/password', { ...asked, body: newPasswordBody }, async (call) => {
      const { identity, params, body, tokenHash, by } = call;
      const name = params.operator;
      if (identity.role !== 'owner') {
        if (name !== identity.name)
          return problem('forbidden', 'Only an owner may set the password of another.');
        if (!body.current)
          return invalid('current_password', 'is missing. Give the password that you have now.');
        const wrong = await passwordProblemOf(front, call, { name, password: body.current }, wrongCurrent);
        if (wrong) return wrong;
      }
      const encoded = await encode(body.next, 'password');
      if (!encoded.ok) return encoded.problem;
      const request = { name, encoded: encoded.value, keep: tokenHash, by };
      return replyTo(await vault.ask('operator.password', request), noContent);
    }),
  ];
}

const wrongCurrent = () => problem('forbidden', 'The current password is wrong. Nothing was changed.');
