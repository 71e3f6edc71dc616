import { isFailure } from './failure.ts';

/**
 * Runs a command of the benchmark to its end and exits: 0, or 1 with one message. On Ctrl-C or SIGTERM it exits
 * at once with 130 or 143. Whatever was started or changed is put back by `exit` handlers, so none of these
 * ways forgets it.
 */
export async function supervised(command: () => Promise<void>): Promise<never> {
  process.once('SIGINT', () => process.exit(130));
  process.once('SIGTERM', () => process.exit(143));
  process.once('SIGHUP', () => process.exit(129));
  try {
    await command();
  } catch (error) {
    // A defect of ours shows where it is.
    if (!isFailure(error)) throw error;
    console.error(`bench: ${error.message}`);
    process.exit(1);
  }
  process.exit(0);
}
