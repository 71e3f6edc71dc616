import { type Html, html } from './html.ts';

/** A name, an address or the like within a sentence; `foreign` is text whose direction of writing must not spread. */
type Piece = string | { readonly code: string } | { readonly foreign: string };

/** A sentence that a page shows with markup, and a terminal without. */
export type Words = readonly Piece[];

export function code(text: string): Piece {
  return { code: text };
}

/** Puts a sentence together, as `html` does with markup. */
export function say(strings: TemplateStringsArray, ...parts: readonly (Piece | Words | null)[]): Words {
  return strings.flatMap((text, i): Words => {
    const part = parts[i] ?? null;
    return [text, ...(part === null ? [] : isWords(part) ? part : [part])];
  });
}

const isWords = (part: Piece | Words): part is Words => Array.isArray(part);

/** `A, B and C`: the first few of them, and how many more there are. */
export function listWords(texts: readonly string[], most = 3): Words {
  const shown = texts.slice(0, most).map(code);
  const more = texts.length - shown.length;
  const items = more > 0 ? [...shown, `${more} more`] : shown;
  return items.flatMap((item, i) => (i === 0 ? [item] : [i === items.length - 1 ? ' and ' : ', ', item]));
}

export function wordsHtml(words: Words): Html {
  return html`${words.map((piece) => {
    if (typeof piece === 'string') return html`${piece}`;
    return 'code' in piece ? html`<code>${piece.code}</code>` : html`<bdi>${piece.foreign}</bdi>`;
  })}`;
}

export function wordsText(words: Words): string {
  return words
    .map((piece) => (typeof piece === 'string' ? piece : 'code' in piece ? piece.code : piece.foreign))
    .join('');
}
