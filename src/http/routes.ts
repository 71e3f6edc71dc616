import { agentRoutes } from './agents.ts';
import { approvePageRoutes } from './approve-page.ts';
import { auditRoutes } from './audit.ts';
import type { Browser } from './browser.ts';
import { credentialRoutes } from './credentials.ts';
import { discoveryRoutes } from './discovery.ts';
import { eventRoutes } from './events.ts';
import type { FrontOptions } from './front-options.ts';
import { healthRoutes } from './health.ts';
import type { Held } from './held.ts';
import { inviteRoutes } from './invites.ts';
import { keepingRoutes } from './keeping.ts';
import { loginRoutes } from './login.ts';
import { loginPageRoutes } from './login-page.ts';
import { openapiRoute } from './openapi.ts';
import { operatorRoutes } from './operators.ts';
import { assetRoutes } from './pages/assets.ts';
import { consoleRoutes } from './pages/console.ts';
import type { History } from './pages/history.ts';
import { liveRoutes } from './pages/live.ts';
import { proposalReviewRoutes } from './proposal-review.ts';
import { proposalRoutes } from './proposals.ts';
import type { Route } from './route.ts';
import { proofRoutes } from './server-proof.ts';
import { serviceRoutes } from './services.ts';
import { sessionRoutes } from './sessions.ts';
import type { Signatures } from './signature.ts';
import { vaultRoutes } from './vaults.ts';

/** What handlers work with. */
export interface FrontParts extends FrontOptions {
  readonly baseUrl: string;
  readonly held: Held;
  readonly browser: Browser;
  readonly signatures: Signatures;
  readonly history: History;
}

/** Every route of the API and its pages. */
export function frontRoutes(front: FrontParts): Route[] {
  const routes = [
    ...healthRoutes(front),
    ...proofRoutes(front),
    ...discoveryRoutes(front),
    ...proposalRoutes(front),
    ...proposalReviewRoutes(front),
    ...approvePageRoutes(front),
    ...assetRoutes(),
    ...liveRoutes(front),
    ...credentialRoutes(front),
    ...vaultRoutes(front),
    ...serviceRoutes(front),
    ...sessionRoutes(front),
    ...agentRoutes(front),
    ...inviteRoutes(front),
    ...eventRoutes(front),
    ...auditRoutes(front),
    ...operatorRoutes(front),
    ...loginRoutes(front),
    ...loginPageRoutes(front),
    ...keepingRoutes(front),
  ];
  return [...routes, openapiRoute(routes, front.baseUrl), ...consoleRoutes(front, routes)];
}
