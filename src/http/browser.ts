import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { parseAbsolute } from '../actors/vault/authority.ts';
import { type Problem, problem } from '../actors/vault/problem.ts';
import { tokenKind } from '../actors/vault/token.ts';
import type { Incoming } from './incoming.ts';

/**
 * What a browser's requests need beside a valid cookie, since it sends the cookie along with whatever a page makes it
 * send: a token that only our own pages have, and an `Origin` that is ours. Cookies know no port (RFC 6265 section 8.5), so
 * that who listens on another one gets the cookie, and with it the token: for a change neither suffices, see `proof.ts`.
 */
export interface Browser {
  /** The CSRF token of a session, by what names it. It is good for as long as this process and the session live. */
  csrfToken(session: string): string;
  /** Refuses what doesn't bring the session's CSRF token. */
  csrfProblem(session: string, given: string | undefined): Problem | null;
  /** What shows that this process has let a browser see something. */
  ticket(what: string): string;
  isTicket(what: string, given: string | null): boolean;
  /** What may be the session's token in a request's cookies: pages of other ports can put more of its name there. */
  sessionCookies(incoming: Incoming): readonly string[];
  /** Refuses a change that no page of ours asks for (RFC 6454 section 7). */
  originProblem(incoming: Incoming): Problem | null;
  /** `Set-Cookie` that signs in; null: that signs out (RFC 6265). Another cookie of ours, where `as` names it. */
  setCookie(incoming: Incoming, token: string | null, as?: CookieName): string;
}

interface CookieName {
  readonly name: string;
  readonly path: string;
}

const session: CookieName = { name: 'broker_session', path: '/' };
/** Under TLS: nobody but this very host can set a cookie of such a name, and not without TLS (RFC 6265bis section 4.1.3.2). */
const secureSession: CookieName = { name: '__Host-broker_session', path: '/' };

/** More cookies of one name than anyone has by chance. */
const maxCookies = 16;

/** @param baseUrl what clients were told to use; it may differ from what this process listens on */
export function createBrowser(baseUrl: string, isTls: boolean): Browser {
  const key = randomBytes(32);
  const publicOrigin = originOf(baseUrl);
  const isPublicTls = publicOrigin?.startsWith('https:') ?? false;

  const mac = (text: string) => createHmac('sha256', key).update(text).digest('base64url');
  const csrfToken = (session: string) => mac(`csrf ${session}`);
  const ticket = (what: string) => mac(`ticket ${what}`);

  /** Behind something that does TLS, what comes by the public name came over TLS. */
  function isSecure(host: string): boolean {
    return isTls || (isPublicTls && originOf(`https://${host}`) === publicOrigin);
  }

  function sessionOf(incoming: Incoming): CookieName {
    const [host = ''] = incoming.values('host');
    return isSecure(host) ? secureSession : session;
  }

  /** The origins of our pages, as this request's sender sees them. */
  function ownOrigins(incoming: Incoming): (string | null)[] {
    const [host = ''] = incoming.values('host');
    return [publicOrigin, originOf(`${isSecure(host) ? 'https' : 'http'}://${host}`)];
  }

  return {
    csrfToken,
    ticket,
    isTicket: (what, given) => isSame(given ?? '', ticket(what)),
    csrfProblem(session, given = '') {
      if (isSame(given, csrfToken(session))) return null;
      return problem('forbidden', given === '' ? noCsrf : oldCsrf);
    },
    originProblem(incoming) {
      const given = incoming.values('origin');
      const origin = given.length === 1 ? originOf(given[0]) : null;
      if (origin !== null && ownOrigins(incoming).includes(origin)) return null;
      return problem('forbidden', foreignOrigin);
    },
    sessionCookies: (incoming) =>
      cookiesOf(incoming, sessionOf(incoming).name)
        .filter((each) => tokenKind(each) === 'operator')
        .slice(0, maxCookies),
    setCookie(incoming, token, { name, path } = sessionOf(incoming)) {
      const [host = ''] = incoming.values('host');
      const secure = isSecure(host) ? '; Secure' : '';
      const life = token === null ? '; Max-Age=0' : '';
      return `${name}=${token ?? ''}; Path=${path}; HttpOnly; SameSite=Strict${secure}${life}`;
    },
  };
}

const noCsrf = 'The form lacks its token, the field csrf. Load the page anew and try again.';
const oldCsrf =
  'The page was made before you signed in, or before the broker started. Load it anew and try again.';
const foreignOrigin =
  'This change does not come from a page of the broker. Open the broker by its own address and try again.';

function isSame(given: string, wanted: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(wanted)];
  return one.length === other.length && timingSafeEqual(one, other);
}

/** Scheme, host and port in their one canonical form; null for what is none, `null` among it. */
function originOf(url: string): string | null {
  const target = parseAbsolute(url);
  return target && `${target.scheme}://${target.authority.host}:${target.authority.port}`;
}

/** A cookie of a request. Where there are several of its name none counts: a neighbour may have put one there. */
export function cookieOf(incoming: Incoming, name: string): string | null {
  const found = cookiesOf(incoming, name);
  return found.length === 1 ? found[0] : null;
}

function cookiesOf(incoming: Incoming, name: string): string[] {
  return incoming
    .values('cookie')
    .flatMap((header) => header.split(';'))
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1))
    .filter((value) => value !== '');
}

/** A path of this server to go on to, or null: what a browser would take for another host's address is none. */
export function localPath(next: string | undefined): string | null {
  return next !== undefined && next.length <= 2048 && /^\/(?![/\\])[!-[\]-~]*$/.test(next) ? next : null;
}
