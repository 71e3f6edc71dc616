/** Makes pictures of pages small: flat colours fit a palette. */
import { crc32, deflateSync, inflateSync } from 'node:zlib';

const signature = Buffer.from('89504e470d0a1a0a', 'hex');
const paletteSize = 256;

/**
 * A PNG as a browser gives it (8 bits, RGB or RGBA without transparency, not interlaced) with a palette instead: the
 * colours that are seen most, and for each other one the nearest of these.
 */
export function withPalette(png: Buffer): Buffer {
  const { width, height, rows, step } = read(png);
  const counts = new Map<number, number>();
  const colours = new Uint32Array(width * height);
  for (let i = 0; i < colours.length; i++) {
    const at = i * step;
    const colour = (rows[at] << 16) | (rows[at + 1] << 8) | rows[at + 2];
    colours[i] = colour;
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  const byCount = [...counts].sort((a, b) => b[1] - a[1]).map(([colour]) => colour);
  const palette = byCount.slice(0, paletteSize);
  const index = new Map(palette.map((colour, i) => [colour, i]));
  for (const colour of byCount.slice(paletteSize)) index.set(colour, nearest(palette, colour));

  const lines = Buffer.alloc(height * (width + 1));
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      lines[y * (width + 1) + 1 + x] = index.get(colours[y * width + x]) ?? 0;
    }
  }
  const header = Buffer.from(png.subarray(16, 29));
  header[9] = 3;
  const entries = Buffer.from(palette.flatMap((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255]));
  return Buffer.concat([
    signature,
    chunk('IHDR', header),
    chunk('PLTE', entries),
    chunk('IDAT', deflateSync(lines, { level: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

function nearest(palette: readonly number[], colour: number): number {
  let best = 0;
  let least = Number.POSITIVE_INFINITY;
  for (const [i, each] of palette.entries()) {
    const red = (each >> 16) - (colour >> 16);
    const green = ((each >> 8) & 255) - ((colour >> 8) & 255);
    const blue = (each & 255) - (colour & 255);
    const distance = red * red + green * green + blue * blue;
    if (distance < least) [best, least] = [i, distance];
  }
  return best;
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(data.length);
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, sum]);
}

interface Picture {
  readonly width: number;
  readonly height: number;
  /** Without filters. */
  readonly rows: Buffer;
  /** Octets of a pixel. */
  readonly step: number;
}

/** Takes a PNG apart, and its filters off (PNG section 9). */
function read(png: Buffer): Picture {
  const width = png.readUInt32BE(16);
  const height = png.readUInt32BE(20);
  const step = png[25] === 6 ? 4 : 3;
  const data: Buffer[] = [];
  for (let at = 8; at < png.length; at += 12 + png.readUInt32BE(at)) {
    if (png.toString('latin1', at + 4, at + 8) === 'IDAT')
      data.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)));
  }
  const raw = inflateSync(Buffer.concat(data));
  const length = width * step;
  const rows = Buffer.alloc(height * length);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (length + 1)];
    for (let x = 0; x < length; x++) {
      const at = y * length + x;
      const left = x < step ? 0 : rows[at - step];
      const up = y === 0 ? 0 : rows[at - length];
      const upLeft = x < step || y === 0 ? 0 : rows[at - length - step];
      const guess = [0, left, up, (left + up) >> 1, paeth(left, up, upLeft)][filter];
      rows[at] = raw[y * (length + 1) + 1 + x] + guess;
    }
  }
  return { width, height, rows, step };
}

function paeth(left: number, up: number, upLeft: number): number {
  const guess = left + up - upLeft;
  const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - upLeft)];
  if (a <= b && a <= c) return left;
  return b <= c ? up : upLeft;
}
