import { Transform, type TransformCallback } from 'node:stream';
import { inspect } from 'node:util';
import { type FinalResults, Parser, type Result } from 'tap-parser';

/** Diagnostics of a crashed file that say how tap started it, not what went wrong. */
const noise = new Set(['args', 'command', 'cwd', 'externalID', 'jobId', 'stdio']);

/** The diagnostics of one failing point, indented: text as the text that it is, the rest inspected. */
function describe(diagnostics: Record<string, unknown> | null): string {
  const lines = Object.entries(diagnostics ?? {}).flatMap(([key, value]) => {
    if (noise.has(key) || value === null) return [];
    const text = typeof value === 'string' ? value.trimEnd() : inspect(value, { depth: 6, breakLength: 100 });
    return text.includes('\n') ? `${key}:\n${text.replace(/^/gm, '  ')}` : `${key}: ${text}`;
  });
  return lines.join('\n');
}

/**
 * A tap reporter, loaded by name from `.taprc`: one line for each test file; what failed, with its diagnostics
 * and what its file printed and remarked; what was skipped, with the reason; last, alone on its line, `N passed, N failed`.
 *
 * Assertions are counted, not files or subtests. What fails without a failing assertion (a crash, a plan that
 * wasn't kept, a run cut short) counts as one failure; skipped and to-do points count as neither.
 */
export default class Reporter extends Transform {
  readonly #parser = new Parser();
  #passed = 0;
  #failed = 0;
  #passedBefore = 0;
  #printed = '';
  #remarks = '';

  constructor() {
    super();
    this.#watch(this.#parser);
    this.#parser.on('pass', () => this.#passed++);
    this.#parser.on('fail', (point: Result) => this.#fail(point.fullname, describe(point.diag)));
    this.#parser.on('skip', (point: Result) => this.#say(`skip ${point.fullname} (${point.skip})`));
    this.#parser.on('todo', (point: Result) => this.#say(`todo ${point.fullname} (${point.todo})`));
    this.#parser.on('bailout', (reason: string) => this.#cutShort(reason));
    this.#parser.on('extra', (text: string) => {
      this.#printed += text;
    });
    this.#parser.on('assert', (file: Result) => this.#endFile(file));
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#parser.write(chunk);
    done();
  }

  override _flush(done: TransformCallback): void {
    this.#parser.end();
    // A failure that none of the events told of must not end in a clean line.
    if (!this.#parser.ok && this.#failed === 0) this.#fail('the run', 'failed without saying why');
    this.#say(`${this.#passed} passed, ${this.#failed} failed`);
    done();
  }

  /** Counts breaches of TAP itself: the parser tells of them per (sub)test, and of the rest at the root. */
  #watch(parser: Parser): void {
    parser.on('comment', (text: string) => {
      // Each subtest's own title is one, too.
      if (!/^# (?:Subtest|time=|passed|failed|bailed)/.test(text)) this.#remarks += text;
    });
    parser.on('child', (child: Parser) => this.#watch(child));
    parser.on('complete', ({ failures }: FinalResults) => {
      for (const failure of failures) {
        const toldAlready = 'ok' in failure && !failure.ok;
        if (failure.tapError && !toldAlready) this.#fail(parser.fullname || 'the run', failure.tapError);
      }
    });
  }

  #endFile(file: Result): void {
    const time = file.time === null ? '' : `, ${(file.time / 1000).toFixed(1)} s`;
    const signal = file.diag?.signal ? `, ended by ${file.diag.signal}` : '';
    if (!file.ok && this.#remarks) this.#say(`it remarked:\n${this.#remarks.trimEnd()}`);
    if (!file.ok && this.#printed) this.#say(`it printed:\n${this.#printed.trimEnd()}`);
    this.#say(
      `${file.ok ? 'ok  ' : 'FAIL'} ${file.name} (${this.#passed - this.#passedBefore} passed${time}${signal})`,
    );
    this.#passedBefore = this.#passed;
    this.#printed = '';
    this.#remarks = '';
  }

  /** With `--bail` the failure that ends the run is told of already. */
  #cutShort(reason: string): void {
    if (this.#failed === 0) this.#fail('the run was cut short', reason);
    else this.#say(`the run was cut short: ${reason}`);
  }

  #fail(name: string, details: string): void {
    this.#failed++;
    this.#say(`not ok ${name}\n${details.replace(/^(?=.)/gm, '    ')}`.trimEnd());
  }

  #say(text: string): void {
    this.push(`${text}\n`);
  }
}
