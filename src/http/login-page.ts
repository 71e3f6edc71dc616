import { type Problem, problem, type Result, statusOf } from '../actors/vault/problem.ts';
import { Secret } from '../actors/vault/secret.ts';
import { hashToken, tokenKind } from '../actors/vault/token.ts';
import { localPath } from './browser.ts';
import { actorOf } from './caller.ts';
import { type Form, readForm } from './form.ts';
import { html } from './html.ts';
import { loginQuery } from './operator-schemas.ts';
import { pageReply } from './page-frame.ts';
import { nextField, signInForm } from './pages/sign-in-form.ts';
import { passwordProblemOf } from './password-check.ts';
import { newKeyOf, signerOf } from './proof.ts';
import { json, type Reply, redirect } from './reply.ts';
import { type Call, type Route, route } from './route.ts';
import type { FrontParts } from './routes.ts';
import { csrfField, currentOperator, type SignedIn, signedForm } from './sign-in.ts';

/** Octets. */
const formLimit = 8192;

/**
 * Where a browser signs in: by a one-time link, or by name and password. Following a link changes nothing, so that no
 * preview of it can use it up: the page that it leads to has a button.
 */
export function loginPageRoutes(front: FrontParts): Route[] {
  const { vault, browser, signatures } = front;
  const open = { auth: 'none', vault: 'none' } as const;
  // What little they cost is what it costs to see whose browser asks: they are how a browser shows that.
  const unlimited = { ...open, unlimited: true } as const;

  /** The cookie of the operator that the form is of. The key that has signed the form signs this session's changes. */
  async function signIn(call: Call, fields: Form): Promise<Result<Secret>> {
    const token = fields.get('token');
    const originKey = newKeyOf(front, call, fields);
    if (token !== undefined) {
      const isToken = tokenKind(token) === 'operator';
      const by = { ...call.by, actor: 'login-link' };
      const hash = hashToken(token);
      const used = isToken ? await vault.ask('operator.redeemLink', { hash, originKey, by }) : null;
      if (used?.ok) return { ok: true, value: used.value.token };
      return { ok: false, problem: call.failed(used?.problem ?? problem('gone', deadLink)) };
    }
    const name = fields.get('name') ?? '';
    const wrong = await passwordProblemOf(front, call, {
      name,
      password: new Secret(fields.get('password') ?? ''),
    });
    if (wrong) return { ok: false, problem: wrong };
    const by = { ...call.by, actor: `operator:${name}`, label: name };
    const made = await vault.ask('operator.signIn', { name, kind: 'cookie', originKey, by });
    return made.ok ? { ok: true, value: made.value.token } : made;
  }

  return [
    route('GET', '/login', { ...open, query: loginQuery }, async ({ incoming, query }) => {
      const next = localPath(query.next);
      if (query.token !== undefined) return linkPage(query.token, next);
      const signedIn = await currentOperator(front, incoming);
      return signedIn ? signedInPage(signedIn, next) : loginPage({ next });
    }),

    route('POST', '/login', open, async (call) => {
      const foreign = browser.originProblem(call.incoming);
      if (foreign) return loginPage({ next: null, refusal: foreign });
      const form = await readForm(call.incoming, formLimit);
      if (!form.ok) return form.problem;
      const next = localPath(form.value.get('next'));
      const cookie = await signIn(call, form.value);
      if (!cookie.ok) {
        const name = form.value.get('name');
        return loginPage({ next, refusal: cookie.problem, name });
      }
      const headers = {
        'set-cookie': browser.setCookie(call.incoming, cookie.value.reveal()),
        // Pages of whoever may have held our port before.
        'clear-site-data': '"cache"',
      };
      return redirect(next ?? '/', headers);
    }),

    // What the script of our pages signs next.
    route('GET', '/login/challenge', unlimited, () => json({ challenge: signatures.challenge() })),

    // Another cookie for the session that the browser's key is bound to: pages of other ports can overwrite cookies.
    route('POST', '/login/resume', unlimited, async (call) => {
      const foreign = browser.originProblem(call.incoming);
      if (foreign) return foreign;
      const form = await readForm(call.incoming, formLimit);
      if (!form.ok) return form.problem;
      const signer = await signerOf(front, call, form.value);
      const originKey = signer?.use() ? signer.identity.originKey : undefined;
      if (!signer || originKey === undefined)
        return problem('unauthorized', 'You are signed out. Sign in again.');
      const by = { ...call.by, actor: actorOf(signer.identity), label: signer.identity.name };
      const resumed = await vault.ask('operator.resume', { originKey, by });
      if (!resumed.ok) return resumed.problem;
      const cookie = browser.setCookie(call.incoming, resumed.value.token.reveal());
      return { status: 204, headers: { 'set-cookie': cookie }, body: '' };
    }),

    route('POST', '/logout', open, async (call) => {
      const signed = await signedForm(front, call, formLimit);
      // Who is signed out already has what they ask for; another site's page doesn't get that far. And who doesn't
      // prove that it is they is signed out of this browser: that takes nothing from anybody else.
      const isHere = !signed.ok && (signed.problem.code === 'unauthorized' || signed.page !== undefined);
      if (!signed.ok && !isHere) return refusalPage(signed.problem);
      if (signed.ok) {
        const { signedIn, by } = signed.value;
        const out = await vault.ask('operator.signOut', { hash: signedIn.hash, by });
        if (!out.ok) return refusalPage(out.problem);
      }
      const next = signed.ok ? localPath(signed.value.form.get('next')) : null;
      const query = next === null ? '' : `?next=${encodeURIComponent(next)}`;
      return redirect(`/login${query}`, { 'set-cookie': browser.setCookie(call.incoming, null) });
    }),
  ];
}

const deadLink = "This link was used or has expired. Run 'broker login' for a new one.";

function linkPage(token: string, next: string | null): Reply {
  return pageReply(
    'Sign in',
    html`<p>This link signs this browser in as an operator. It works once.</p>
<form method="post" action="/login">
<input type="hidden" name="token" value="${token}">${nextField(next)}
<p class="actions"><button class="primary">Sign in</button></p>
</form>`,
  );
}

interface LoginPage {
  readonly next: string | null;
  readonly refusal?: Problem;
  /** As it was given before. */
  readonly name?: string;
}

function loginPage({ next, refusal, name }: LoginPage): Reply {
  const content = html`${refusal ? html`<div class="warning" role="alert"><p>${refusal.message}</p></div>` : null}
<p>Sign in as an operator, to decide proposals and to change vaults.</p>
${signInForm(next, refusal ? (name ?? '') : undefined)}`;
  return refused(pageReply('Sign in', content, refusal ? statusOf(refusal.code) : 200), refusal);
}

function signedInPage(signedIn: SignedIn, next: string | null): Reply {
  const { name, role } = signedIn.identity;
  return pageReply(
    'Signed in',
    html`<p>You are signed in as <strong>${name}</strong> (${role}).</p>
<div class="actions"><a class="button primary" href="${next ?? '/'}">Go on</a>
<form method="post" action="/logout">${csrfField(signedIn)}${nextField(next)}<button>Sign out</button></form></div>`,
  );
}

function refusalPage(refusal: Problem): Reply {
  const content = html`<div class="warning" role="alert"><p>${refusal.message}</p></div><p><a href="/login">Back</a></p>`;
  return refused(pageReply('Not done', content, statusOf(refusal.code)), refusal);
}

/** The headers that RFC 9110 asks for with a refusal's status. */
function refused(reply: Reply, refusal: Problem | undefined): Reply {
  const headers: Record<string, string> = { ...reply.headers };
  if (refusal?.code === 'unauthorized') headers['www-authenticate'] = 'Bearer realm="broker"';
  if (refusal?.retryAfterSeconds !== undefined) headers['retry-after'] = String(refusal.retryAfterSeconds);
  return { ...reply, headers };
}
