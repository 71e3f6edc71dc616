export type Level = 'info' | 'warn' | 'error';

/** One line of the server's own log: JSON on standard error. Fields are names and numbers, never values of secrets. */
export function log(level: Level, message: string, fields: Readonly<Record<string, unknown>> = {}): void {
  process.stderr.write(`${JSON.stringify({ time: new Date().toISOString(), level, message, ...fields })}\n`);
}

/**
 * What may be logged of a failure nobody foresaw: its kind and where it happened. Its message stays out, since
 * it may quote what was being handled.
 */
export function failureFields(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) return { kind: typeof error };
  const code = (error as NodeJS.ErrnoException).code;
  const at = (error.stack ?? '')
    .split('\n')
    .filter((line) => /^\s+at /.test(line))
    .slice(0, 6)
    .map((line) => line.trim());
  return { kind: error.name, ...(code === undefined ? {} : { code }), at };
}

/** Has what libraries say on the console be lines of the log: lmdb-js says there why a commit failed. */
export function takeConsole(): void {
  const take = (level: Level) => (said: unknown) => {
    const fields = said instanceof Error ? failureFields(said) : { said: String(said).slice(0, 500) };
    log(level, 'a library wrote to the console', fields);
  };
  console.error = take('error');
  console.warn = take('warn');
}
