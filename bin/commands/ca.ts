import { X509Certificate } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { type Command, connectionOptions, durationSeconds, type Input, jsonOption } from '../cli.ts';
import { connect } from '../client.ts';
import { failed, misused, note, printJson, write } from '../terminal.ts';
import { show } from '../yaml.ts';

interface Roots {
  readonly pem: string;
  /** The one that signs first. */
  readonly certificates: readonly X509Certificate[];
  readonly proxyPort: number | null;
  /** When the next one begins to sign; null: there is none. */
  readonly switchesAt: string | null;
}

async function fetchRoots(input: Input): Promise<Roots> {
  const api = await connect(input, 'anyone');
  const { text, header } = await api.text('/v1/ca.pem');
  const parts = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  try {
    if (parts.length === 0) throw new Error();
    return {
      pem: text,
      certificates: parts.map((part) => new X509Certificate(part)),
      proxyPort: Number(header('x-broker-proxy-port')) || null,
      switchesAt: header('x-broker-ca-switches-at') ?? null,
    };
  } catch {
    throw failed(`What ${api.address} serves is no certificate. Check --address and BROKER_ADDR.`);
  }
}

function describe(certificate: X509Certificate) {
  return {
    subject: certificate.subject,
    sha256: certificate.fingerprint256,
    valid_from: certificate.validFromDate.toISOString(),
    valid_to: certificate.validToDate.toISOString(),
  };
}

export const commands: readonly Command[] = [
  {
    name: 'ca show',
    about: 'Show the root certificate that agents have to trust; during a rotation, both.',
    options: { ...connectionOptions, ...jsonOption },
    examples: ['broker ca show'],
    async run(input) {
      const { certificates, proxyPort, switchesAt } = await fetchRoots(input);
      const [signing, other] = certificates.map(describe);
      // After the switch the one before is handed out for a minute.
      const rotation =
        other === undefined
          ? {}
          : switchesAt === null
            ? { previous: other }
            : { next: { ...other, signs_from: switchesAt } };
      show({ ...signing, proxy_port: proxyPort, ...rotation }, input.flag('json'));
    },
  },
  {
    name: 'ca export',
    args: '[file]',
    about: 'Write the root certificate (PEM) to a file, or to standard output; during a rotation, both.',
    options: connectionOptions,
    examples: ['broker ca export broker-root.pem'],
    async run(input) {
      const { pem } = await fetchRoots(input);
      const [file] = input.args;
      if (file === undefined) return write(pem);
      try {
        writeFileSync(file, pem);
      } catch (error) {
        throw failed(
          `${file} can't be written (${(error as NodeJS.ErrnoException).code}). Name another file.`,
        );
      }
      note(`Wrote ${file}.`);
    },
  },
  {
    name: 'ca rotate',
    about: 'Make the next root. Both are handed out until the overlap is over; then the new one signs.',
    options: {
      '--overlap <time>': 'How long the present root goes on signing (7d)',
      '--now': 'Have the new root sign at once: clients that run now refuse it until they start again',
      ...connectionOptions,
      ...jsonOption,
    },
    examples: ['broker ca rotate', 'broker ca rotate --overlap 30d'],
    async run(input) {
      const overlap = input.text('overlap');
      if (overlap !== undefined && input.flag('now')) throw misused('Give --overlap or --now, not both.');
      const seconds = overlap === undefined ? undefined : durationSeconds(overlap, '--overlap');
      const body = { overlap_seconds: seconds, now: input.flag('now') || undefined };
      const api = await connect(input);
      const made = await api.call<{ sha256: string; switches_at: string }>('POST', '/v1/ca/rotate', { body });
      if (input.flag('json')) return printJson(made);
      note(`The next root is ${made.sha256}. It signs from ${made.switches_at}.`);
      note('Have long-lived clients trust it before: broker ca export.');
    },
  },
];
