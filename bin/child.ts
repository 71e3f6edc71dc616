import { type ChildProcess, spawn } from 'node:child_process';
import { constants } from 'node:os';
import { isatty } from 'node:tty';
import { failed, note } from './terminal.ts';

const passedOn = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2', 'SIGWINCH'] as const;

/** Sent by a terminal to its whole foreground group: the child has them already, and two Ctrl-C mean more than one. */
const sentByTerminal: ReadonlySet<string> = new Set(['SIGINT', 'SIGQUIT', 'SIGWINCH']);

/** The shell's exit code for an end by this signal. */
export function signalCode(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal];
}

/**
 * From now on signals no longer end this process: what ends it is remembered in `ended`, and every signal is
 * handed to the child once there is one. Taken up before anything is made that has to be taken back.
 */
export class SignalRelay {
  /** The signal that would have ended this process before there was a child. */
  ended: NodeJS.Signals | null = null;
  #child: ChildProcess | null = null;

  constructor() {
    for (const signal of passedOn) process.on(signal, this.#relay);
  }

  #relay = (signal: NodeJS.Signals) => {
    if (this.#child === null) {
      if (signal !== 'SIGWINCH') this.ended ??= signal;
    } else if (!(isatty(0) && sentByTerminal.has(signal))) {
      this.#child.kill(signal);
    }
  };

  attach(child: ChildProcess): void {
    this.#child = child;
  }
}

/**
 * Runs a command with our own standard streams and resolves to its exit code as a shell gives it: its own,
 * 128 + n for signal n, 127 where there is no such command, 126 where it can't be executed.
 */
export function runChild(
  command: readonly string[],
  env: Record<string, string>,
  signals: SignalRelay,
): Promise<number> {
  const [file, ...args] = command;
  return new Promise((resolve, reject) => {
    let child: ChildProcess;
    try {
      child = spawn(file, args, { env, stdio: 'inherit' });
    } catch (error) {
      return resolve(cannotRun(file, error));
    }
    signals.attach(child);
    child.once('error', (error) => {
      if (child.pid === undefined) resolve(cannotRun(file, error));
      else reject(failed(`A signal could not be passed to ${file}: ${error.message}`));
    });
    child.once('exit', (code, signal) => resolve(signal === null ? (code ?? 1) : signalCode(signal)));
  });
}

function cannotRun(file: string, error: unknown): number {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
  if (code === 'ENOENT' || code === 'ENOTDIR') {
    note(`broker: there is no command ${file}. Check its name and PATH.`);
    return 127;
  }
  note(`broker: ${file} can't be executed (${code}). Check that it is a program and may be run.`);
  return 126;
}
