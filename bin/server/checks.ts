import { readFileSync } from 'node:fs';
import tls from 'node:tls';
import { createNetguard } from '../../src/proxy/netguard.ts';
import { failed } from '../terminal.ts';
import type { ServerSettings } from './options.ts';
import { isLoopbackAddress } from './ports.ts';

/** What the settings refer to, read and found good before anything is opened. */
export interface Checked {
  readonly tls: { readonly certFile: string; readonly keyFile: string } | null;
  /** PEM texts. */
  readonly upstreamCa: readonly string[];
}

/** @throws Failure naming the setting, and what to do */
export function checkSettings(settings: ServerSettings): Checked {
  checkExposure(settings);
  const tls = checkTls(settings);
  const upstreamCa = settings['upstream-ca'].map((file) => readPem(file, '--upstream-ca'));
  checkNetwork(settings);
  return { tls, upstreamCa };
}

function checkExposure(settings: ServerSettings): void {
  if (isLoopbackAddress(settings.host) || settings['tls-cert'] !== null || settings['insecure-http']) return;
  throw failed(
    `${settings.host} is reached from other machines, and tokens would cross the network in the clear. ` +
      `Give --tls-cert and --tls-key, or --insecure-http if something in front of the broker does TLS.`,
  );
}

function checkTls(settings: ServerSettings): Checked['tls'] {
  const { 'tls-cert': cert, 'tls-key': key } = settings;
  if (cert === null && key === null) return null;
  if (cert === null || key === null) throw failed('--tls-cert and --tls-key go together. Give both.');
  const files = { cert: readPem(cert, '--tls-cert'), key: readText(key, '--tls-key') };
  try {
    tls.createSecureContext(files);
  } catch {
    throw failed(`${cert} and ${key} are not a certificate and its key in PEM form.`);
  }
  return { certFile: cert, keyFile: key };
}

function readPem(file: string, flag: string): string {
  const text = readText(file, flag);
  if (!text.includes('-----BEGIN CERTIFICATE-----'))
    throw failed(`${file} (${flag}) holds no certificate in PEM form.`);
  return text;
}

function readText(file: string, flag: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw failed(
      `${file} (${flag}) can't be read (${(error as NodeJS.ErrnoException).code}). Check the path.`,
    );
  }
}

/** Bad CIDR texts are found here, before anything is opened; the lanes make their own guard. */
function checkNetwork(settings: ServerSettings): void {
  try {
    createNetguard({
      allowPrivateRanges: false,
      allow: settings['network-allow'],
      ownPorts: [],
      ownAddresses: () => [],
    });
  } catch (error) {
    throw failed(`--network-allow: ${(error as Error).message}`);
  }
}
