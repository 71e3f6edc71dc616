import type { Route } from '../route.ts';
import type { FrontParts } from '../routes.ts';
import { agentPageRoutes } from './agents.ts';
import { createApi } from './api.ts';
import { auditPageRoutes } from './audit-page.ts';
import { explainRoutes } from './explain.ts';
import { overviewRoutes } from './overview.ts';
import { pageRoutes } from './page-route.ts';
import { proposalListRoutes } from './proposal-list.ts';
import { requestRoutes } from './requests.ts';
import { serviceEditRoutes } from './service-edit.ts';
import { vaultCredentialsRoutes } from './vault-credentials.ts';
import { vaultListRoutes } from './vault-list.ts';
import { vaultServicesRoutes } from './vault-services.ts';
import { vaultSettingsRoutes } from './vault-settings.ts';

/** The pages of the console. `apiRoutes`: what they change things by. */
export function consoleRoutes(front: FrontParts, apiRoutes: readonly Route[]): Route[] {
  const routes = pageRoutes(front, createApi(apiRoutes));
  return [
    overviewRoutes,
    vaultListRoutes,
    vaultServicesRoutes,
    serviceEditRoutes,
    vaultCredentialsRoutes,
    vaultSettingsRoutes,
    proposalListRoutes,
    requestRoutes,
    explainRoutes,
    agentPageRoutes,
    auditPageRoutes,
  ].flatMap((make) => make(front, routes));
}
