import { type Problem, statusOf } from '../../actors/vault/problem.ts';
import type { Form } from '../form.ts';
import { type Html, html } from '../html.ts';
import { pageReply } from '../page-frame.ts';
import { proofFields } from '../proof.ts';
import type { Reply } from '../reply.ts';
import type { SignedIn } from '../sign-in.ts';
import { signatureField } from '../signature.ts';

/**
 * The fields by which an operator shows anew that it is they who change something. Where the browser has a key they are for
 * the case that no script runs: with one, it signs the form.
 */
export function proofHtml(signedIn: SignedIn): Html {
  const fields = fieldsHtml(signedIn);
  return signedIn.identity.originKey === undefined ? fields : html`<noscript>${fields}</noscript>`;
}

/** Labels around their fields, and no ids: there may be several forms on a page. */
function fieldsHtml({ identity }: SignedIn): Html {
  return html`<fieldset class="proof"><legend>Show that it is you</legend>
<p class="hint">One of these is enough. The code is printed by <code>broker login --code</code>, and works once, for two minutes.</p>
<div class="row"><div class="field"><label>Your password, ${identity.name}
<input type="password" name="${proofFields.password}" autocomplete="current-password"></label></div>
<div class="field small"><label>Or a code
<input name="${proofFields.code}" autocomplete="one-time-code" inputmode="numeric" maxlength="12" placeholder="123456"></label></div></div></fieldset>`;
}

/** Not to be sent along: what is proved anew, and what is put in anew. */
const dropped = new Set<string>(['csrf', signatureField, ...Object.values(proofFields)]);

/**
 * A form that wasn't proved, once more: all that was in it, and the proof. Values of credentials aren't put into a page,
 * not even for who has just sent them: they are asked for again.
 */
export function proofPage(signedIn: SignedIn, path: string, form: Form, refusal: Problem): Reply {
  const fields = [...form].filter(([name]) => !dropped.has(name));
  const content = html`<div class="warning" role="alert" tabindex="-1" autofocus><p><strong>Nothing was changed yet.</strong> ${refusal.message}</p></div>
<form method="post" action="${path}" autocomplete="off" data-once><input type="hidden" name="csrf" value="${signedIn.csrf}">
${fields.map(([name, value], i) => (name.startsWith('value.') ? valueAgain(name, value, i) : html`<input type="hidden" name="${name}" value="${value}">`))}
${fieldsHtml(signedIn)}
<p class="actions"><button class="primary">Go on</button><a class="button" href="/">Leave it</a></p></form>`;
  const reply = pageReply('Show that it is you', content, statusOf(refusal.code));
  if (refusal.retryAfterSeconds === undefined) return reply;
  return { ...reply, headers: { ...reply.headers, 'retry-after': String(refusal.retryAfterSeconds) } };
}

function valueAgain(name: string, value: string, i: number): Html {
  const rest = html` id="value-${i}" name="${name}" autocomplete="off" autocapitalize="none" spellcheck="false" aria-describedby="hint-${i}"`;
  const input = value.includes('\n')
    ? html`<textarea class="secret" rows="6"${rest}></textarea>`
    : html`<input type="password"${rest}>`;
  return html`<div class="field"><label for="value-${i}">Value${name === 'value.new' ? null : html` of <code>${name.slice('value.'.length)}</code>`}, again</label>
${input}
<span class="hint" id="hint-${i}">Values aren’t kept on pages.</span></div>`;
}
