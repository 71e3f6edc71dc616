const markup = Symbol('markup');

/** Markup that has been put together by `html` and by nothing else. */
export interface Html {
  readonly [markup]: string;
}

type Part = string | number | null | Html | readonly Html[];

/**
 * Puts values into markup. Every text is escaped, for the inside of elements and of quoted attributes alike; what an
 * earlier `html` gave is put in as it is. There is no way round it.
 */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  return { [markup]: String.raw({ raw: strings }, ...parts.map(render)) };
}

/** The text of a page. */
export function page(content: Html): string {
  return `<!doctype html>\n${content[markup]}`;
}

function render(part: Part): string {
  if (part === null) return '';
  if (typeof part === 'string' || typeof part === 'number') return escaped(String(part));
  return markup in part ? part[markup] : part.map((each) => each[markup]).join('');
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
  '`': '&#96;',
};

function escaped(text: string): string {
  return visible(text).replace(/[&<>"'`]/g, (char) => entities[char]);
}

/**
 * Shows what can't be seen: controls, characters without width, and those that turn the direction of writing, by which
 * a text can look like another one. Tabs and line feeds stay.
 */
function visible(text: string): string {
  return text
    .toWellFormed()
    .replace(
      /[^\P{Cc}\t\n]|[\p{Cf}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0]/gu,
      (char) => `[U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}]`,
    );
}
