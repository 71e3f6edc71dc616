import { type Problem, problem, type Result } from '../actors/vault/problem.ts';
import type { By } from '../actors/vault/protocol.ts';
import { actorOf, labelOf, operatorByCookie } from './caller.ts';
import { type Form, readForm } from './form.ts';
import { type Html, html } from './html.ts';
import type { Incoming } from './incoming.ts';
import { proofPage } from './pages/proof-form.ts';
import { proofProblem, signerOf } from './proof.ts';
import { type Reply, redirect } from './reply.ts';
import type { Call, OperatorIdentity } from './route.ts';
import type { FrontParts } from './routes.ts';

/*
 * For pages: who sits at the browser, and whether a form is theirs. Their routes have `auth: 'none'`, and refuse by
 * showing a page. (The API takes the same cookie, to read.)
 */

/** An operator whose browser has a valid cookie. */
export interface SignedIn {
  readonly identity: OperatorIdentity;
  /** Of the cookie: names the session. */
  readonly hash: string;
  /** What a form of theirs has to bring, as the field `csrf`. */
  readonly csrf: string;
}

/**
 * The operator of a browser's request; null: nobody is signed in.
 * @throws {ActorError} (as a rejection) where the vault doesn't answer
 */
export async function currentOperator(front: FrontParts, incoming: Incoming): Promise<SignedIn | null> {
  const found = await operatorByCookie(front, incoming);
  return found && signedInAs(front, found.identity);
}

function signedInAs({ browser }: FrontParts, identity: OperatorIdentity): SignedIn {
  // The session of a key outlives its cookie, see `operator.resume`, and so do the forms that are open.
  const csrf = browser.csrfToken(identity.originKey ?? identity.session);
  return { identity, hash: identity.session, csrf };
}

/** What a form of a signed-in operator holds, to be put inside of it. */
export function csrfField({ csrf }: SignedIn): Html {
  return html`<input type="hidden" name="csrf" value="${csrf}">`;
}

/** A form that may be acted upon: its operator, its fields, and who the change is by. */
export interface SignedForm {
  readonly signedIn: SignedIn;
  readonly form: Form;
  readonly by: By;
}

/** `page`: what to show in place of the refusal. */
export type Refused = { readonly ok: false; readonly problem: Problem; readonly page?: Reply };

/**
 * Reads a form that a signed-in operator sends, and that is proved to be: signed by the key of the browser's origin,
 * else by a password or code in it. A signature stands for its session whatever became of the cookie, which pages of other
 * ports may have overwritten. Refused: `unauthorized` where nobody is signed in; `forbidden` where it comes from another
 * site's page, has no CSRF token, or isn't proved; what `readForm` refuses.
 * @param limit octets
 */
export async function signedForm(
  front: FrontParts,
  call: Pick<Call, 'incoming' | 'by' | 'failed'>,
  limit?: number,
): Promise<{ readonly ok: true; readonly value: SignedForm } | Refused> {
  const { incoming } = call;
  const foreign = front.browser.originProblem(incoming);
  if (foreign) return { ok: false, problem: foreign };
  const read = await readForm(incoming, limit);
  if (!read.ok) return read;
  const form = read.value;
  const signer = await signerOf(front, call, form);
  const bySignature = signer && signedInAs(front, signer.identity);
  if (signer && bySignature && isOf(front, bySignature, form).ok) {
    if (!signer.use()) return { ok: false, problem: problem('conflict', sentAlready) };
    return { ok: true, value: { signedIn: bySignature, form, by: byOf(call.by, bySignature) } };
  }
  const signedIn = await currentOperator(front, incoming);
  if (signedIn === null)
    return { ok: false, problem: problem('unauthorized', 'Nobody is signed in. Sign in first.') };
  const own = isOf(front, signedIn, form);
  if (!own.ok) return own;
  const by = byOf(call.by, signedIn);
  const unproved = await proofProblem(front, { ...call, by }, signedIn.identity, form);
  if (unproved)
    return { ok: false, problem: unproved, page: proofPage(signedIn, incoming.path, form, unproved) };
  return { ok: true, value: { signedIn, form, by } };
}

function isOf({ browser }: FrontParts, { identity }: SignedIn, form: Form): Result<null> {
  const forged = browser.csrfProblem(identity.originKey ?? identity.session, form.get('csrf'));
  return forged ? { ok: false, problem: forged } : { ok: true, value: null };
}

function byOf(by: By, { identity }: SignedIn): By {
  return { ...by, actor: actorOf(identity), label: labelOf(identity) };
}

const sentAlready = 'This form was sent already. Load the page anew to see what it did, or to send it again.';

/** Sends a browser to sign in, and back to where it is now: for pages, which are fetched by GET. */
export function toLogin({ path, query }: Incoming): Reply {
  const here = query === '' ? path : `${path}?${query}`;
  return redirect(`/login?next=${encodeURIComponent(here)}`);
}
