import type { AuditPort } from '../front-options.ts';
import type { OperatorIdentity } from '../route.ts';
import { isWanted, type RequestFilter, type RequestRecord, requestOf } from './request-record.ts';

/** The newest records of the audit that are looked through, and the requests that are shown of them. */
const maxRead = 5000;
export const maxShown = 100;
/** Octets from the log's end that a page looks through: in a long log, what is asked for may be far back. */
export const lookBack = 64 * 2 ** 20;

/** The newest requests that an operator may see and wants to, the newest first. */
export async function newestRequests(
  audit: AuditPort,
  filter: RequestFilter,
  identity: OperatorIdentity,
): Promise<RequestRecord[]> {
  const found: RequestRecord[] = [];
  for await (const line of audit.read({
    vault: filter.vault,
    limit: maxRead,
    newest: 'first',
    within: lookBack,
  })) {
    const record = requestOf(line);
    if (record && isWanted(record, filter, identity)) found.push(record);
    if (found.length === maxShown) break;
  }
  return found;
}
