import type { Ref } from '../actors/core/protocol.ts';
import { problem, type Result } from '../actors/vault/problem.ts';
import type { By, VaultProtocol } from '../actors/vault/protocol.ts';
import type { Browser } from './browser.ts';
import { actorOf, labelOf, operatorByCookie } from './caller.ts';
import { type Form, readForm } from './form.ts';
import { type Html, html } from './html.ts';
import type { Incoming } from './incoming.ts';
import { type Reply, redirect } from './reply.ts';
import type { Call, OperatorIdentity } from './route.ts';

/*
 * For pages: who sits at the browser, and whether a form is theirs. Their routes have `auth: 'none'`, and refuse by
 * showing a page. (The API takes the same cookie; its pipeline asks for the CSRF token in a header.)
 */

/** An operator whose browser has a valid cookie. */
export interface SignedIn {
  readonly identity: OperatorIdentity;
  /** Of the cookie: names the session. */
  readonly hash: string;
  /** What a form of theirs has to bring, as the field `csrf`. */
  readonly csrf: string;
}

interface Parts {
  readonly vault: Ref<VaultProtocol>;
  readonly browser: Browser;
}

/**
 * The operator of a browser's request; null: nobody is signed in.
 * @throws {ActorError} (as a rejection) where the vault doesn't answer
 */
export async function currentOperator(
  { vault, browser }: Parts,
  incoming: Incoming,
): Promise<SignedIn | null> {
  const found = await operatorByCookie(vault, incoming);
  return found && { ...found, csrf: browser.csrfToken(found.hash) };
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

/**
 * Reads a form that a signed-in operator sends. Refused: `unauthorized` where nobody is signed in; `forbidden` where it
 * comes from another site's page or has no CSRF token; what `readForm` refuses.
 * @param limit octets
 */
export async function signedForm(
  parts: Parts,
  { incoming, by }: Pick<Call, 'incoming' | 'by'>,
  limit?: number,
): Promise<Result<SignedForm>> {
  const foreign = parts.browser.originProblem(incoming);
  if (foreign) return { ok: false, problem: foreign };
  const signedIn = await currentOperator(parts, incoming);
  if (signedIn === null)
    return { ok: false, problem: problem('unauthorized', 'Nobody is signed in. Sign in first.') };
  const form = await readForm(incoming, limit);
  if (!form.ok) return form;
  const forged = parts.browser.csrfProblem(signedIn.hash, form.value.get('csrf'));
  if (forged) return { ok: false, problem: forged };
  const { identity } = signedIn;
  return {
    ok: true,
    value: { signedIn, form: form.value, by: { ...by, actor: actorOf(identity), label: labelOf(identity) } },
  };
}

/** Sends a browser to sign in, and back to where it is now: for pages, which are fetched by GET. */
export function toLogin({ path, query }: Incoming): Reply {
  const here = query === '' ? path : `${path}?${query}`;
  return redirect(`/login?next=${encodeURIComponent(here)}`);
}
