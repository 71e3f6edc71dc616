import { Secret } from '../actors/vault/secret.ts';
import { object, type Schema } from './model-schemas.ts';
import { bodyCheck, queryCheck } from './validate.ts';

/* What comes in about operators and the broker's own keys. Passwords are wrapped as soon as they are read. */

const string: Schema = { type: 'string' };
const secret = (value: string | undefined): Secret | null => (value === undefined ? null : new Secret(value));

export const newOperatorBody = bodyCheck(
  object(
    {
      name: string,
      role: { type: 'string', enum: ['owner', 'admin'] },
      vaults: { type: 'array', items: string },
      password: string,
    },
    ['name'],
  ),
  ({
    password,
    ...rest
  }: {
    name: string;
    role?: 'owner' | 'admin';
    vaults?: readonly string[];
    password?: string;
  }) => ({
    ...rest,
    password: secret(password),
  }),
);

export const newPasswordBody = bodyCheck(
  object({ password: string, current_password: string }, ['password']),
  ({ password, current_password }: { password: string; current_password?: string }) => ({
    next: new Secret(password),
    current: secret(current_password),
  }),
);

export const loginBody = bodyCheck(
  object({ name: string, password: string }, ['name', 'password']),
  ({ name, password }: { name: string; password: string }) => ({ name, password: new Secret(password) }),
);

export const loginQuery = queryCheck<{ token?: string; next?: string }>({
  type: 'object',
  properties: { token: string, next: string },
});

/** `current`: the one that there is; `new`: the one to be, absent to go back to a key file. */
export const masterPasswordBody = bodyCheck(
  object({ current: string, new: string }),
  (body: { current?: string; new?: string }) => ({ current: secret(body.current), next: secret(body.new) }),
);

export const rotateCaBody = bodyCheck<{ overlap_seconds?: number; now?: boolean }>(
  object({
    overlap_seconds: { type: 'integer', minimum: 0, maximum: 366 * 86_400 },
    now: { type: 'boolean' },
  }),
);
