import { registrationOf } from '../../actors/vault/host-pattern.ts';
import type { AuthConfig, Substitution } from '../../actors/vault/model.ts';
import list from './service-templates.json' with { type: 'json' };

/** A well-known API as a service, with what its credentials are and where they are to be had. */
export interface ServiceTemplate {
  readonly id: string;
  readonly name: string;
  readonly host: string;
  readonly description: string;
  readonly auth: AuthConfig;
  readonly substitutions?: readonly Substitution[];
  readonly credentials: readonly {
    readonly key: string;
    readonly description: string;
    readonly obtain: string;
    readonly obtain_instructions: string;
  }[];
}

/** In the order of their names. A test holds each against the rules of services and slots. */
export const serviceTemplates = list as readonly ServiceTemplate[];

/** The registered domains of these. */
export const templateDomains: ReadonlySet<string> = new Set(
  serviceTemplates.map(({ host }) => registrationOf(host).domain ?? host),
);
