import 'node:buffer';

// Node's own, undocumented in its types: the cheapest way between bytes and latin1 text.
declare global {
  interface Buffer {
    latin1Slice(start?: number, end?: number): string;
    latin1Write(text: string, offset?: number, length?: number): number;
  }
}
