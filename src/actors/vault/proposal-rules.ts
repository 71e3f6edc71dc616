import { keyProblem, valueProblem } from './credential-rules.ts';
import { at, invalid, isFields, refused, textProblem, unknownField } from './fields.ts';
import type { CredentialSlot, ServiceChange } from './model.ts';
import { accept, type Problem, type Result } from './problem.ts';
import { Secret } from './secret.ts';
import { checkHost, checkService, repeatedHost } from './service-rules.ts';

/** Lengths are in Unicode code points. */
const proposalLimits = {
  services: 10,
  slots: 10,
  message: 2000,
  userMessage: 5000,
  description: 500,
  obtain: 500,
  obtainInstructions: 1000,
} as const;

/** A proposal whose form is right. Whether its keys and hosts exist is for the vault to say. */
export interface CheckedProposal {
  readonly services: readonly ServiceChange[];
  readonly credentials: readonly CredentialSlot[];
  /** Values that the agent gave with its slots, by key; their slots say `has_value`. */
  readonly values: ReadonlyMap<string, Secret>;
  readonly message: string;
  readonly user_message: string;
}

/** Checks the body of `POST /v1/proposals` (protocol, "Proposal"); refusals are `invalid_request` with `field`. */
export function checkProposal(body: unknown): Result<CheckedProposal> {
  if (!isFields(body)) return refused(invalid('body', 'must be an object with services or credentials.'));
  const wrong =
    unknownField(body, '', ['services', 'credentials', 'message', 'user_message']) ??
    textProblem(body.message, 'message', proposalLimits.message) ??
    textProblem(body.user_message, 'user_message', proposalLimits.userMessage) ??
    listProblem(body.services, 'services', proposalLimits.services) ??
    listProblem(body.credentials, 'credentials', proposalLimits.slots);
  if (wrong !== null) return refused(wrong);
  // Checked above: lists or absent, strings or absent.
  const {
    services = [],
    credentials = [],
    message = '',
    user_message = '',
  } = body as {
    services?: unknown[];
    credentials?: unknown[];
    message?: string;
    user_message?: string;
  };
  if (services.length + credentials.length === 0) {
    return refused(invalid('services', 'the proposal asks for nothing. Add a service or a credential slot.'));
  }
  const changes = checkChanges(services);
  if (!changes.ok) return changes;
  const slots = checkSlots(credentials);
  if (!slots.ok) return slots;
  return accept({ services: changes.value, ...slots.value, message, user_message });
}

function listProblem(value: unknown, field: string, max: number): Problem | null {
  if (value === undefined) return null;
  if (!Array.isArray(value)) return invalid(field, 'must be a list.');
  return value.length > max
    ? invalid(field, `has more than ${max} entries. Split it into several proposals.`)
    : null;
}

function checkChanges(list: readonly unknown[]): Result<ServiceChange[]> {
  const changes: ServiceChange[] = [];
  for (const [index, entry] of list.entries()) {
    const checked = checkChange(entry, `services[${index}]`);
    if (!checked.ok) return checked;
    changes.push(checked.value);
  }
  const twice = repeatedHost(changes, 'services');
  return twice === null ? accept(changes) : refused(twice);
}

function checkChange(entry: unknown, path: string): Result<ServiceChange> {
  if (!isFields(entry)) return refused(invalid(path, 'must be an object with action and host.'));
  const { action, ...service } = entry;
  if (action === 'set') {
    const checked = checkService(service, path);
    return checked.ok ? accept({ action, ...checked.value }) : checked;
  }
  if (action === 'delete') {
    const unknown = unknownField(entry, path, ['action', 'host']);
    if (unknown !== null) return refused(unknown);
    const host = checkHost(entry.host, at(path, 'host'));
    return host.ok ? accept({ action, host: host.value }) : host;
  }
  return refused(invalid(at(path, 'action'), 'must be set or delete.'));
}

function checkSlots(list: readonly unknown[]): Result<Pick<CheckedProposal, 'credentials' | 'values'>> {
  const credentials: CredentialSlot[] = [];
  const values = new Map<string, Secret>();
  const seen = new Set<string>();
  for (const [index, entry] of list.entries()) {
    const path = `credentials[${index}]`;
    const wrong = slotProblem(entry, path);
    if (wrong !== null) return refused(wrong);
    const { value, ...slot } = entry as CredentialSlot & { value?: string };
    if (seen.has(slot.key))
      return refused(invalid(at(path, 'key'), 'another slot has this key. Remove one.'));
    seen.add(slot.key);
    if (value !== undefined) values.set(slot.key, new Secret(value));
    credentials.push(value !== undefined && slot.action === 'set' ? { ...slot, has_value: true } : slot);
  }
  return accept({ credentials, values });
}

function slotProblem(entry: unknown, path: string): Problem | null {
  if (!isFields(entry)) return invalid(path, 'must be an object with action and key.');
  if (entry.action === 'delete') {
    return unknownField(entry, path, ['action', 'key']) ?? keyProblem(entry.key, at(path, 'key'));
  }
  if (entry.action !== 'set') return invalid(at(path, 'action'), 'must be set or delete.');
  return (
    unknownField(entry, path, ['action', 'key', 'description', 'obtain', 'obtain_instructions', 'value']) ??
    keyProblem(entry.key, at(path, 'key')) ??
    textProblem(entry.description, at(path, 'description'), proposalLimits.description) ??
    textProblem(entry.obtain, at(path, 'obtain'), proposalLimits.obtain) ??
    linkProblem(entry.obtain, at(path, 'obtain')) ??
    textProblem(
      entry.obtain_instructions,
      at(path, 'obtain_instructions'),
      proposalLimits.obtainInstructions,
    ) ??
    (entry.value === undefined ? null : valueProblem(entry.value, at(path, 'value')))
  );
}

/**
 * A human will click on it: http or https only, nobody's user name before the host (`https://github.com@evil.example`),
 * nothing that a page shows otherwise than a browser reads it (white space, controls, direction marks, backslashes).
 */
function linkProblem(value: unknown, field: string): Problem | null {
  if (value === undefined) return null;
  const url = /^https?:\/\/[^\s\\\p{Cc}\p{Cf}]+$/iu.test(String(value)) ? URL.parse(String(value)) : null;
  if (url !== null && url.username === '' && url.password === '') return null;
  return invalid(field, 'must be an http:// or https:// address, without user name and spaces.');
}
