import { accept, type Problem, type Result, statusOf } from '../../actors/vault/problem.ts';
import { referencedKeys } from '../../actors/vault/service-rules.ts';
import { administers, foreignVault } from '../caller.ts';
import { type Html, html } from '../html.ts';
import { type Answer, redirect } from '../reply.ts';
import type { Route } from '../route.ts';
import type { FrontParts } from '../routes.ts';
import { servicesBody } from '../schemas.ts';
import { consolePage, vaultTabs } from './layout.ts';
import type { FormCall, PageCall, PageRoutes } from './page-route.ts';
import { type ServiceForm, serviceForm, templatePicker } from './service-form.ts';
import { draftFrom, draftOf, emptyDraft, inputOf, type ServiceDraft } from './service-input.ts';
import { type ServiceTemplate, serviceTemplates } from './templates.ts';
import { removalForm, servicePath } from './vault-services.ts';

/** To add a service and to edit one. */
export function serviceEditRoutes(front: FrontParts, { page, action }: PageRoutes): Route[] {
  const { vault } = front;

  async function keysOf(name: string): Promise<Result<readonly string[]>> {
    const found = await vault.ask('credential.list', { vault: name });
    return found.ok ? accept(found.value.keys) : found;
  }

  async function show(
    { signedIn, params }: PageCall,
    form: Omit<ServiceForm, 'vault' | 'keys'>,
    keys: readonly string[],
  ): Promise<Answer> {
    const name = params.vault;
    const { isNew, draft, problem, template } = form;
    const target = isNew ? `/vaults/${name}/new-service` : servicePath(name, draft.host);
    const content: Html = html`${vaultTabs(name, 'services')}
${isNew ? templatePicker(name, template) : null}
${serviceForm(signedIn, target, { ...form, vault: name, keys })}
${isNew ? null : html`<p>${removalForm(signedIn, target, draft.host)}</p>`}`;
    const title = isNew ? 'New service' : draft.host;
    const status = problem ? statusOf(problem.code) : 200;
    return consolePage(front, signedIn, { title, section: '/vaults', content, status });
  }

  /** Stores what is new, then the service: each is checked before the first is stored. */
  async function save(call: FormCall, isNew: boolean): Promise<Answer> {
    const { signedIn, params, form, api } = call;
    if (!administers(signedIn.identity, params.vault)) return foreignVault();
    const keys = await keysOf(params.vault);
    if (!keys.ok) return keys.problem;
    const draft = { ...draftFrom(form), ...(!isNew && { host: params.host }) };
    const refused = (problem: Problem) =>
      show(
        call,
        { draft, isNew, template: null, problem, missing: missingKeys(draft, keys.value) },
        keys.value,
      );

    const input = inputOf(draft);
    if (!input.ok) return refused(input.problem);
    const checked = servicesBody.check({ services: [input.value] });
    if (!checked.ok) return refused(checked.problem);
    const cleared = isNew ? null : await substitutionsCleared(params.vault, draft);
    if (cleared) return refused(cleared);
    const missing = missingKeys(draft, keys.value);
    // Who has named a credential hasn't been asked for its value yet.
    if (missing.some((key) => !form.has(`value.${key}`))) {
      return show(
        call,
        { draft, isNew, template: null, problem: null, missing, isNextStep: true },
        keys.value,
      );
    }
    const credentials = valuesOf(call, missing);
    if (Object.keys(credentials).length > 0) {
      const set = await api('POST', '/v1/credentials', { params, body: { credentials } });
      if (!set.ok) return refused(set.problem);
    }
    const saved = await api('POST', '/v1/vaults/{vault}/services', {
      params,
      body: { services: [input.value] },
    });
    return saved.ok ? redirect(`/vaults/${params.vault}?done=service-saved`) : refused(saved.problem);
  }

  /** A `set` without substitutions keeps those that are there: who took them all out of the form has to know. */
  async function substitutionsCleared(name: string, draft: ServiceDraft): Promise<Problem | null> {
    if (draft.substitutions.length > 0) return null;
    const found = await vault.ask('service.list', { vault: name });
    const service = found.ok ? found.value.services.find(({ host }) => host === draft.host) : undefined;
    if (!service?.substitutions?.length) return null;
    const message =
      'A service keeps its placeholders. To take all of them away, remove the service and add it again.';
    return { code: 'invalid_request', message, extra: { field: 'substitutions[0].placeholder' } };
  }

  return [
    page('/vaults/{vault}/new-service', async (call) => {
      const { signedIn, params, query } = call;
      if (!administers(signedIn.identity, params.vault)) return foreignVault();
      const keys = await keysOf(params.vault);
      if (!keys.ok) return keys.problem;
      const template = serviceTemplates.find(({ id }) => id === query.template) ?? null;
      const draft = template ? draftOf(template) : { ...emptyDraft, host: query.host ?? '' };
      const missing = template ? missingKeys(draft, keys.value) : [];
      return show(call, { draft, isNew: true, template, missing, problem: null }, keys.value);
    }),

    action('/vaults/{vault}/new-service', (call) => save(call, true)),

    page('/vaults/{vault}/services/{host}', async (call) => {
      const { signedIn, params } = call;
      if (!administers(signedIn.identity, params.vault)) return foreignVault();
      const [keys, found] = await Promise.all([
        keysOf(params.vault),
        vault.ask('service.list', { vault: params.vault }),
      ]);
      if (!keys.ok) return keys.problem;
      if (!found.ok) return found.problem;
      const service = found.value.services.find(({ host }) => host === params.host);
      if (!service)
        return { code: 'not_found', message: 'There is no service for this host. It may have been removed.' };
      const draft = draftOf({ ...service, enabled: undefined });
      const missing = missingKeys(draft, keys.value);
      return show(
        call,
        { draft, isNew: false, template: null as ServiceTemplate | null, missing, problem: null },
        keys.value,
      );
    }),

    action('/vaults/{vault}/services/{host}', (call) => save(call, false)),
  ];
}

/** Keys that a draft refers to and that aren't stored; none where it isn't a service yet. */
function missingKeys(draft: ServiceDraft, keys: readonly string[]): string[] {
  const input = inputOf(draft);
  const checked = input.ok ? servicesBody.check({ services: [input.value] }) : null;
  const [service] = checked?.ok ? checked.value.services : [];
  if (!service) return [];
  const needed = referencedKeys(service.auth, service.substitutions).map(({ key }) => key);
  return [...new Set(needed)].filter((key) => !keys.includes(key));
}

/** The values that were given for these keys. */
function valuesOf({ form }: FormCall, keys: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    keys.flatMap((key) => {
      const value = form.get(`value.${key}`)?.replaceAll('\r\n', '\n') ?? '';
      return value === '' ? [] : [[key, value]];
    }),
  );
}
