import { ActorError } from '../../actors/core/errors.ts';
import { type Problem, statusOf } from '../../actors/vault/problem.ts';
import type { By } from '../../actors/vault/protocol.ts';
import { failureProblem } from '../failure.ts';
import type { Form } from '../form.ts';
import { html } from '../html.ts';
import { maxBody } from '../incoming.ts';
import { pageReply } from '../page-frame.ts';
import { type Answer, isProblem, type Reply } from '../reply.ts';
import { type Call, type Route, route } from '../route.ts';
import type { FrontParts } from '../routes.ts';
import { currentOperator, type SignedIn, signedForm, toLogin } from '../sign-in.ts';
import { parseQuery } from '../validate.ts';
import type { Api } from './api.ts';

/** A page that somebody who is signed in asks for. */
export interface PageCall extends Pick<Call, 'incoming' | 'params' | 'failed'> {
  readonly signedIn: SignedIn;
  readonly query: Readonly<Record<string, string>>;
  /** Asks a route of the API in the operator's name. */
  readonly api: ReturnType<Api>;
  readonly by: By;
}

/** A form that somebody who is signed in sends from one of our pages. */
export interface FormCall extends PageCall {
  readonly form: Form;
}

export interface PageRoutes {
  /** A page to look at. Who isn't signed in is sent to do that, and comes back. */
  page(path: string, show: (call: PageCall) => Promise<Answer>): Route;
  /** What a form does. It has shown that it is ours: see `signedForm`. */
  action(path: string, act: (call: FormCall) => Promise<Answer>): Route;
}

/** Makes routes whose refusals are pages too. */
export function pageRoutes(front: FrontParts, api: Api): PageRoutes {
  const open = { auth: 'none', vault: 'none' } as const;

  return {
    page: (path, show) =>
      route('GET', path, open, (call) =>
        asPage(async () => {
          const signedIn = await currentOperator(front, call.incoming);
          if (signedIn === null) return toLogin(call.incoming);
          const query = parseQuery(call.incoming.query);
          if (!query.ok) return query.problem;
          const { incoming, params, failed, by } = call;
          const rest = { signedIn, by, query: query.value };
          return show({ incoming, params, failed, ...rest, api: api({ ...call, signedIn, by }) });
        }),
      ),

    action: (path, act) =>
      route('POST', path, open, (call) =>
        asPage(async () => {
          const signed = await signedForm(front, call, maxBody);
          if (!signed.ok) return signed.page ?? signed.problem;
          const { signedIn, form, by } = signed.value;
          const { incoming, params, failed } = call;
          return act({
            incoming,
            params,
            failed,
            signedIn,
            form,
            by,
            query: {},
            api: api({ ...call, signedIn, by }),
          });
        }),
      ),
  };
}

/** Shows refusals as pages. What nobody foresaw is for the pipeline, which logs it. */
export async function asPage(answer: () => Promise<Answer>): Promise<Reply> {
  let given: Answer;
  try {
    given = await answer();
  } catch (error) {
    if (!ActorError.is(error)) throw error;
    given = failureProblem(error);
  }
  return isProblem(given) ? problemPage(given) : given;
}

/** A refusal as a page: what happened, and where to go on. */
export function problemPage(refusal: Problem): Reply {
  const way =
    refusal.code === 'unauthorized'
      ? html`<a class="button primary" href="/login">Sign in</a>`
      : html`<a class="button" href="/">To the overview</a>`;
  const content = html`<div class="warning" role="alert"><p>${refusal.message}</p></div>
<p class="actions">${way}</p>`;
  const reply = pageReply(titles[refusal.code] ?? 'Not done', content, statusOf(refusal.code));
  if (refusal.retryAfterSeconds === undefined) return reply;
  return { ...reply, headers: { ...reply.headers, 'retry-after': String(refusal.retryAfterSeconds) } };
}

const titles: Readonly<Record<string, string>> = {
  not_found: 'Not found',
  gone: 'No longer there',
  unauthorized: 'Signed out',
  forbidden: 'Not allowed',
  overloaded: 'Busy',
  rate_limited: 'Too many tries',
};
