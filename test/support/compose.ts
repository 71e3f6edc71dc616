import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compose, type Running } from '../../bin/server/compose.ts';
import { readSettings, type ServerSettings } from '../../bin/server/options.ts';
import { quotasOf } from '../../bin/server/quotas.ts';
import { type Clock, systemClock } from '../../src/actors/core/clock.ts';
import type { Quotas } from '../../src/actors/vault/quotas.ts';
import { startFront } from '../../src/http/front.ts';
import type { FrontOptions } from '../../src/http/front-options.ts';

/** What a test has otherwise than a server that is started without a flag. */
export interface Composed {
  readonly settings?: Partial<ServerSettings>;
  readonly clock?: Clock;
  /** Puts something else in the place of what the front is given. */
  readonly alter?: (options: FrontOptions) => Partial<FrontOptions>;
}

export interface ComposedBroker extends Running {
  /** The owner's token. */
  readonly operator: string;
  /** What was logged, as JSON. */
  readonly log: string[];
  /** What the front gave to be audited. */
  readonly records: Record<string, unknown>[];
  stop(): Promise<void>;
}

const noInput = { args: [], rest: [], text: () => undefined, texts: () => [], flag: () => false };

/** What a server has that is started without a flag. */
export function usualSettings(): ServerSettings {
  return readSettings(noInput, {});
}

/** What such a server lets agents and vaults keep. */
export const usualQuotas: Quotas = quotasOf(usualSettings());

/** The server as `broker server` composes it, on this thread, with one lane, on free ports and in a directory of its own. */
export async function composeBroker(given: Composed = {}): Promise<ComposedBroker> {
  const { clock = systemClock, alter = () => ({}) } = given;
  const directory = mkdtempSync(join(tmpdir(), 'broker-composed-'));
  const settings = { ...usualSettings(), port: 0, 'proxy-port': 0, workers: 1, ...given.settings };
  const log: string[] = [];
  const records: Record<string, unknown>[] = [];
  const undo: (() => unknown)[] = [() => rmSync(directory, { recursive: true })];

  async function stop(): Promise<void> {
    for (const step of undo.splice(0).reverse()) await step();
  }
  const surroundings = {
    clock,
    masterPassword: null,
    log: (level: string, message: string, fields = {}) =>
      void log.push(JSON.stringify({ level, message, ...fields })),
    startFront: (options: FrontOptions) => {
      const { audit } = options;
      const append = (record: Readonly<Record<string, unknown>>): void => {
        records.push(record);
        audit.append(record);
      };
      const own = { ...options, audit: { ...audit, append } };
      return startFront({ ...own, ...alter(own) });
    },
  };
  try {
    const running = await compose({ ...settings, 'data-dir': directory }, surroundings, undo);
    const operator = readFileSync(join(directory, 'owner.token'), 'utf8').trim();
    return { ...running, operator, log, records, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
