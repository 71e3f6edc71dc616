import { type Example, type Place, withBytes } from './suite.ts';

/** What a finding is about, without the texts in it. */
function about(problem: string): string {
  return problem.split(':')[0].replace(/[0-9]+/g, 'n');
}

/**
 * Cuts a failing example down: takes away whatever can go while the same thing goes wrong. What fails only
 * by its maker's word, or only when cut into writes as it was, is given back as it is.
 *
 * @param milliseconds ends the search, which may hang on each try
 */
export async function minimise(place: Place, failing: Example, milliseconds: number): Promise<Example> {
  const until = performance.now() + milliseconds;
  const first = await place.check(withBytes(failing, failing.example.bytes, []));
  if (first.problem === null) return failing;
  const subject = about(first.problem);
  const sentinel = failing.direction === 'request' ? Buffer.from(failing.example.sentinel) : Buffer.alloc(0);
  let bytes = failing.example.bytes.subarray(0, failing.example.bytes.length - sentinel.length);
  for (let size = Math.ceil(bytes.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = 0; at < bytes.length && performance.now() < until; ) {
      const fewer = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + size)]);
      const { problem } = await place.check(withBytes(failing, Buffer.concat([fewer, sentinel]), []));
      if (problem !== null && about(problem) === subject) bytes = fewer;
      else at += size;
    }
  }
  return withBytes(failing, Buffer.concat([bytes, sentinel]), []);
}
