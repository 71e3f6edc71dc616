import type { Increase, Review } from '../../actors/vault/review-rules.ts';
import { type Html, html } from '../html.ts';
import { code, listWords, say, type Words, wordsHtml } from '../words.ts';

/** What of an increase's hosts is named in a sentence; a list of exceptions can be as long as the vault's. */
const mostNamed = 20;

/**
 * Each increase that has to be ticked by itself, by its place among all: what no value ticks, and a placeholder that isn't
 * bound to its place, since the agent chooses where the value goes, and may read it there.
 */
export function ownTicks({ increases }: Review): (readonly [place: number, increase: Increase])[] {
  return [...increases.entries()].filter(([, increase]) => wantsTick(increase));
}

export function wantsTick({ ticked_by, surface }: Increase): boolean {
  return ticked_by === 'confirm' || surface in anywhere;
}

/** Name of the form field that ticks the increase at a place. */
export function tickName(place: number): string {
  return `tick.${place}`;
}

/**
 * What credentials would reach beyond what they reach now, a line each; those of `ownTicks` come first, with a tick of
 * their own for the form of this id.
 */
export function increasesHtml(
  review: Review | undefined,
  form: string | null,
  ticked: ReadonlySet<string>,
): Html | null {
  if (review === undefined || review.increases.length === 0) return null;
  const own = ownTicks(review);
  const byValue = review.increases.filter((increase) => !wantsTick(increase));
  return html`${
    own.length === 0
      ? null
      : html`<section class="warning grave" aria-labelledby="reach"><h2 id="reach">Your credentials would reach more</h2>
<ul>${own.map(
          ([place, increase]) =>
            html`<li>${wordsHtml(increaseWords(increase))} ${why(increase)}${
              form === null ? null : tickHtml(increase, tickName(place), form, ticked)
            }</li>`,
        )}</ul></section>`
  }
${
  byValue.length === 0
    ? null
    : html`<section class="warning" aria-labelledby="named"><h2 id="named">What the new credentials would reach</h2>
<ul>${byValue.map((increase) => html`<li>${wordsHtml(increaseWords(increase))}</li>`)}</ul></section>`
}`;
}

function tickHtml(increase: Increase, name: string, form: string, ticked: ReadonlySet<string>): Html {
  return html`<label class="tick"><input type="checkbox" form="${form}" name="${name}" value="yes" required${
    ticked.has(name) ? html` checked` : null
  }><span>Yes, I want <code>${increase.key}</code> to be sent to ${wordsHtml(targetWords(increase))}.</span></label>`;
}

/** Why a tick is asked for. */
export function why({ ticked_by, surface }: Increase): string {
  const now = ticked_by === 'confirm' ? 'It isn’t sent there in this way now.' : '';
  const free =
    surface in anywhere ? 'It isn’t bound to a place: the agent may put it where it can read it back.' : '';
  return [now, free].filter((each) => each !== '').join(' ');
}

/** `STRIPE_KEY would be sent to api.stripe.com, in the header Authorization, also over http.` */
export function increaseWords(increase: Increase): Words {
  const scheme = increase.scheme === 'https' ? 'over https only' : 'over https and unencrypted http';
  return say`${code(increase.key)} would be sent to ${targetWords(increase)}: ${surfaceWords(increase.surface)}, ${scheme}.`;
}

function targetWords({ hosts, except = [] }: Increase): Words {
  const to = listWords(hosts, mostNamed);
  return except.length === 0 ? to : say`${to} (but not to ${listWords(except, mostNamed)})`;
}

const anywhere: Readonly<Record<string, string>> = {
  path: 'anywhere in the path, where the agent puts it',
  query: 'anywhere in the query, where the agent puts it',
  header: 'in any header, where the agent puts it',
};

function surfaceWords(surface: string): Words {
  const known = anywhere[surface];
  if (known !== undefined) return [known];
  const [, kind, place] = /^(auth header|path|query|header) (.*)$/s.exec(surface) ?? [null, '', surface];
  switch (kind) {
    case 'path':
      return say`at the place ${code(place)} of the path`;
    case 'query':
      return say`in the query parameter ${code(place)}`;
    default:
      return say`in the header ${code(place)}`;
  }
}
