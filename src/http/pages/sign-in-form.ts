import { type Html, html } from '../html.ts';

/**
 * How an operator signs in. Where their browser's key has a session the page goes on by itself.
 * @param next a path of ours that they come back to
 * @param again the name as they gave it before, where that was refused; they read why, then
 */
export function signInForm(next: string | null, again?: string): Html {
  const resumes = again === undefined ? html` data-resume="${next ?? '/'}"` : null;
  return html`${passwordForm(next, again ?? '')}
<p class="muted"${resumes}>No password yet? Run <code>broker login</code> on the machine of the broker, and open the link that it prints${
    next === null ? null : html` in this browser. Then load this page again`
  }.</p>`;
}

/** Where to go on to after signing in, as a field of the form. */
export function nextField(next: string | null): Html | null {
  return next === null ? null : html`<input type="hidden" name="next" value="${next}">`;
}

function passwordForm(next: string | null, name: string): Html {
  return html`<form method="post" action="/login">
<div class="field"><label for="name">Name</label>
<input id="name" name="name" value="${name}" autocomplete="username" autocapitalize="none" spellcheck="false" required></div>
<div class="field"><label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" required></div>
${nextField(next)}<p class="actions"><button class="primary">Sign in</button></p>
</form>`;
}
