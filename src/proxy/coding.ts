import zlib from 'node:zlib';
import type { ResponseHead } from './head.ts';
import type { SessionEntry } from './lane-state.ts';

/** Most decoders of a lane at a time: each has a window of some hundred KiB, up to 8 MiB. */
const mostDecoders = 64;
/** And of a session: upstreams of its own may keep each of them open for as long as they like. */
const mostOfSession = 8;
/** log2 of the largest zstd window that is taken (RFC 8878 3.1.1.1.2). */
const zstdWindowLog = 23;
let open = 0;

/** A stream that undoes a content coding. */
export type Decoder = ReturnType<typeof zlib.createGunzip> | ReturnType<typeof zlib.createBrotliDecompress>;

/** The coding of an answer's body (RFC 9110 8.4); null: it has none. */
export function codingOf(head: ResponseHead): string | null {
  let coding: string | null = null;
  for (let i = 0; i < head.names.length; i++) {
    if (head.names[i].lower !== 'content-encoding') continue;
    const value = head.values[i].toLowerCase();
    coding = coding === null ? value : `${coding}, ${value}`;
  }
  return coding === '' || coding === 'identity' ? null : coding;
}

/**
 * The platform's decoder for a coding, for an answer to a session; null: the coding isn't known, the body is a part
 * of one, or too many are open.
 */
export function decoderOf(coding: string, { status }: ResponseHead, session: SessionEntry): Decoder | null {
  if (status === 206 || open >= mostDecoders || session.decoders >= mostOfSession) return null;
  const decoder = create(coding);
  if (decoder === null) return null;
  open++;
  session.decoders++;
  decoder.once('close', () => {
    open--;
    session.decoders--;
  });
  return decoder;
}

function create(coding: string): Decoder | null {
  switch (coding) {
    case 'gzip':
    case 'x-gzip':
      return zlib.createGunzip();
    case 'deflate':
      return zlib.createInflate();
    case 'br':
      return zlib.createBrotliDecompress();
    case 'zstd':
      // Not there in every version of the platform that this runs on.
      return (
        zlib.createZstdDecompress?.({ params: { [zlib.constants.ZSTD_d_windowLogMax]: zstdWindowLog } }) ??
        null
      );
    default:
      return null;
  }
}
