import { type Html, html, page } from './html.ts';
import { icon, script, style } from './pages/assets.ts';
import type { Reply } from './reply.ts';

/**
 * What a page may use: our own style sheet, script and icon, forms and streams of our own. Nothing inline, nothing from
 * elsewhere, no frame around it; and no script may make markup out of text (W3C Trusted Types).
 */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

export interface Frame {
  readonly title: string;
  readonly content: Html;
  readonly status?: number;
  /** Above the content, on every page of the console. */
  readonly navigation?: Html;
  /** What goes into the head beside what is always there. */
  readonly head?: Html;
  /** A page to read and decide on, not a console: its lines stay short. */
  readonly narrow?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A page of the broker's, as a reply. Its heading is its title. */
export function framed(frame: Frame): Reply {
  const { title, content, status = 200, navigation = null, head = null, narrow = false } = frame;
  const whole = html`<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex, nofollow">
<title>${title} · broker</title>
<link rel="stylesheet" href="${style.path}" integrity="${style.integrity}">
<link rel="icon" href="${icon.path}" type="image/svg+xml">
<script type="module" src="${script.path}" integrity="${script.integrity}"></script>
${head}</head>
<body>
<a class="skip" href="#main">Skip to content</a>
${navigation ?? plainBar}
<main id="main" tabindex="-1" class="${narrow ? 'narrow' : 'wide'}">
<h1>${title}</h1>
${content}
</main>
</body>
</html>
`;
  const headers = {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': policy,
    // The last one that a browser knows counts. With the first, forms would come with `Origin: null` (Fetch section
    // 3.1); with the second, other sites learn just as little.
    'referrer-policy': 'no-referrer, same-origin',
    ...frame.headers,
  };
  return { status, headers, body: page(whole) };
}

const plainBar = html`<header class="bar"><div><a class="brand" href="/">broker</a></div></header>`;

/** A page outside of the console: to sign in, or to say what is wrong. */
export function pageReply(title: string, content: Html, status = 200): Reply {
  return framed({ title, content, status, narrow: true });
}
