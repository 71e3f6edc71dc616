import { systemClock } from '../../src/actors/core/clock.ts';
import type { Secret } from '../../src/actors/vault/secret.ts';
import { StoreError } from '../../src/actors/vault/store.ts';
import { startFront } from '../../src/http/front.ts';
import { dataDirectory, defaultAddress } from '../target.ts';
import { failed } from '../terminal.ts';
import { urlHost } from './addresses.ts';
import { compose, type Running } from './compose.ts';
import { log, takeConsole } from './log.ts';
import type { ServerSettings } from './options.ts';

/** An orderly stop that left audit records unwritten: EX_IOERR of sysexits.h. */
const exitRecordsLost = 74;

/**
 * Runs the broker until it is told to stop. Whatever fails on the way is said in one line, and nothing is left behind.
 * @param masterPassword as it was given with the start; null: it wasn't
 * @returns the exit code
 */
export async function runServer(settings: ServerSettings, masterPassword: Secret | null): Promise<number> {
  takeConsole();
  const undo: (() => unknown)[] = [];
  let running: Running;
  try {
    running = await compose(settings, { clock: systemClock, log, masterPassword, startFront }, undo);
    // Before anyone is told that there is something to stop.
    const stopped = stopSignal();
    announce(settings, running);
    const signal = await stopped;
    log('info', 'stopping', { signal });
    running.drain();
  } catch (error) {
    if (error instanceof StoreError) throw failed(error.message);
    throw error;
  } finally {
    for (const step of undo.reverse()) await step();
  }
  return running.recordsLost() === 0 ? 0 : exitRecordsLost;
}

function announce(settings: ServerSettings, { front, proxyPort, directory, auditDamage }: Running): void {
  const { baseUrl } = front;
  const at = `http://${urlHost(settings.host)}`;
  const address = baseUrl === defaultAddress ? '' : ` --address ${baseUrl}`;
  const usual = dataDirectory({ ...process.env, BROKER_DATA_DIR: undefined });
  const flags = address + (directory === usual ? '' : ` --data-dir ${shellWord(directory)}`);
  const damage =
    auditDamage === null ? '' : `The audit log is damaged: ${auditDamage}. See 'broker audit verify'.\n`;
  process.stdout.write(
    `${damage}broker is ready.\n` +
      `  API    ${baseUrl}\n` +
      `  proxy  ${at.replace('http', 'https')}:${proxyPort} (TLS or plain)\n` +
      `  data   ${directory}\n\n` +
      `To the first brokered request:\n` +
      `  bin/broker vault credential set GH_TOKEN${flags}\n` +
      `  bin/broker vault service set -f services.yaml${flags}\n` +
      `  bin/broker vault run${flags} -- curl https://api.github.com/user\n` +
      `Or in a browser, by the link that this prints: bin/broker login${flags}\n`,
  );
}

function shellWord(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** Resolves at the first SIGTERM or SIGINT; a second one ends the process at once. */
function stopSignal(): Promise<string> {
  return new Promise((resolve) => {
    let asked = false;
    const onSignal = (signal: string): void => {
      if (asked) process.exit(1);
      asked = true;
      resolve(signal);
    };
    process.on('SIGTERM', onSignal);
    process.on('SIGINT', onSignal);
  });
}
