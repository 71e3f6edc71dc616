import { type Problem, problem } from '../actors/vault/problem.ts';
import { Secret } from '../actors/vault/secret.ts';
import type { Form } from './form.ts';
import { passwordProblemOf } from './password-check.ts';
import type { Call, OperatorIdentity } from './route.ts';
import type { FrontParts } from './routes.ts';
import { signatureOf } from './signature.ts';

/** The fields of a form by which an operator proves a change anew, where no key of the browser's does. */
export const proofFields = { password: 'proof.password', code: 'proof.code' } as const;

type Parts = Pick<FrontParts, 'vault' | 'signatures'>;

/** The operator whose browser has signed a form, and the hash of the session; null: nobody has, or not rightly. */
export async function signerOf(
  { vault, signatures }: Parts,
  { incoming }: Pick<Call, 'incoming'>,
  form: Form,
): Promise<{ readonly identity: OperatorIdentity; use(): boolean } | null> {
  const signature = signatureOf(form);
  if (signature === null) return null;
  const identity = await vault.ask('operator.byKey', { originKey: signature.key });
  if (identity?.kind !== 'operator' || !signatures.isGood(signature, incoming, form)) return null;
  return { identity, use: () => signatures.use(signature) };
}

/** The key that a form is signed with, to be bound to the session that it begins; undefined: there is none. */
export function newKeyOf(
  { signatures }: Pick<Parts, 'signatures'>,
  { incoming }: Pick<Call, 'incoming'>,
  form: Form,
): string | undefined {
  const signature = signatureOf(form);
  return signature && signatures.isGood(signature, incoming, form) ? signature.key : undefined;
}

/**
 * Refuses a change that is proved neither by the operator's password nor by a code from the terminal. Wrong ones are counted
 * as at a sign-in, and past the limit none is looked at.
 */
export async function proofProblem(
  front: FrontParts,
  call: Pick<Call, 'incoming' | 'failed' | 'by'>,
  { name }: OperatorIdentity,
  form: Form,
): Promise<Problem | null> {
  const code = form.get(proofFields.code)?.replace(/\s/g, '') ?? '';
  const password = form.get(proofFields.password) ?? '';
  if (code !== '') return codeProblem(front, call, name, new Secret(code));
  if (password === '') return problem('forbidden', unproved);
  return passwordProblemOf(front, call, { name, password: new Secret(password) }, wrongPassword);
}

async function codeProblem(
  { vault, failures, clock }: FrontParts,
  { incoming, failed, by }: Pick<Call, 'incoming' | 'failed' | 'by'>,
  name: string,
  code: Secret,
): Promise<Problem | null> {
  const wrong = problem('forbidden', wrongCode);
  if (failures.guessWait(incoming.peer, name, clock.now()) > 0) return failed(wrong, name);
  const used = await vault.ask('operator.useCode', { name, code, by });
  if (!used.ok) return used.problem.code === 'unauthorized' ? failed(wrong, name) : used.problem;
  failures.guessedRight(incoming.peer, name);
  return null;
}

const unproved =
  'This browser holds no key that could sign the change, so show that it is you: by your password, or by six digits from the terminal.';
const wrongCode =
  "The code is wrong, was used, or is older than two minutes. Run 'broker login --code' for a new one.";
const wrongPassword = () => problem('forbidden', 'The password is wrong.');
