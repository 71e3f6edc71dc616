import { isCredentialKey } from './credential-rules.ts';

/** A template in pieces: literal text and the credential keys between it, in order. */
interface Template {
  readonly parts: readonly (string | { readonly key: string })[];
}

// A brace right beside a placeholder (`{{{ K }}}`) could be read two ways, so it makes none.
const placeholder = /(?<!\{)\{\{[ \t]*(\w+)[ \t]*\}\}(?!\})/g;

/**
 * Takes a header template apart (protocol, "Auth config", type `custom`): each `{{ KEY }}` stands for a
 * credential value. Only spaces and tabs may surround the key; every `{{` or `}}` that isn't part of a
 * well-formed placeholder is an error, which says where it stands (counted from 1). Runs in linear time.
 */
export function parseTemplate(text: string): Template | { readonly error: string } {
  const parts: (string | { key: string })[] = [];
  let from = 0;
  for (const match of text.matchAll(placeholder)) {
    const [whole, key] = match;
    if (!isCredentialKey(key)) return malformed('{{', match.index);
    const stray = addLiteral(parts, text.slice(from, match.index), from);
    if (stray !== null) return stray;
    parts.push({ key });
    from = match.index + whole.length;
  }
  return addLiteral(parts, text.slice(from), from) ?? { parts };
}

/** The credential keys of a template, each once, in order. */
export function templateKeys(template: Template): string[] {
  const keys = template.parts.flatMap((part) => (typeof part === 'string' ? [] : [part.key]));
  return [...new Set(keys)];
}

function addLiteral(parts: unknown[], literal: string, offset: number): { error: string } | null {
  const stray = /\{\{|\}\}/.exec(literal);
  if (stray !== null) return malformed(stray[0], offset + stray.index);
  if (literal !== '') parts.push(literal);
  return null;
}

// The text itself isn't repeated: what stands in the braces may be a secret pasted in place of its key.
function malformed(braces: string, index: number): { error: string } {
  return { error: `the ${braces} at character ${index + 1} belongs to no placeholder of the form {{ KEY }}` };
}
