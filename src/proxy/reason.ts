import { STATUS_CODES } from 'node:http';

/** The reason phrase of a status (RFC 9110 15). */
export function reasonPhrase(status: number): string {
  return STATUS_CODES[status] ?? 'Unknown';
}
