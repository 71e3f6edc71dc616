import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import type { Incoming } from '../incoming.ts';
import type { Reply } from '../reply.ts';
import { type Route, route } from '../route.ts';

interface Asset {
  /** Changes with the content, so that it may be cached for ever. */
  readonly path: string;
  readonly body: Uint8Array;
  readonly zipped: Uint8Array;
  readonly type: string;
  /** For the page that loads it: what whoever held our port before left in a cache is not taken for it (W3C SRI). */
  readonly integrity: string;
}

function load(file: string, type: string): Asset {
  const body = Buffer.from(shortened(readFileSync(new URL(file, import.meta.url), 'utf8')));
  const hash = createHash('sha256').update(body).digest();
  return {
    path: `/assets/${hash.toString('hex').slice(0, 16)}-${file}`,
    body,
    zipped: gzipSync(body, { level: 9 }),
    type,
    integrity: `sha256-${hash.toString('base64')}`,
  };
}

/** Without the comments that have lines of their own, and without indentation: a quarter of it, which nobody reads there. */
function shortened(text: string): string {
  return text.replace(/^\s*(?:\/\*[\s\S]*?\*\/|\/\/.*)$/gm, '').replace(/^\s+/gm, '');
}

/** All that a page may load: there is nothing from elsewhere, and nothing inline. */
const assets = {
  style: load('style.css', 'text/css; charset=utf-8'),
  script: load('live.js', 'text/javascript; charset=utf-8'),
  icon: load('icon.svg', 'image/svg+xml'),
};

export const {
  style,
  script,
  icon,
}: Readonly<Record<keyof typeof assets, Pick<Asset, 'path' | 'integrity'>>> = assets;

export function assetRoutes(): Route[] {
  return Object.values(assets).map((asset) =>
    route('GET', asset.path, { auth: 'none', vault: 'none' }, ({ incoming }) => assetReply(asset, incoming)),
  );
}

/** Assets alone are compressed: they hold nothing that the length of a page could tell (as by BREACH). */
function assetReply({ body, zipped, type }: Asset, incoming: Incoming): Reply {
  const headers = {
    'content-type': type,
    'cache-control': 'public, max-age=31536000, immutable',
    vary: 'accept-encoding',
  };
  const takesGzip = incoming.values('accept-encoding').some((value) => /\bgzip\b(?!\s*;\s*q=0)/i.test(value));
  if (!takesGzip) return { status: 200, headers, body };
  return { status: 200, headers: { ...headers, 'content-encoding': 'gzip' }, body: zipped };
}
