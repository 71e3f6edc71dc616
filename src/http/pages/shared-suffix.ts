import { registrationOf } from '../../actors/vault/host-pattern.ts';

/** Suffixes under which strangers get names, and that the list of public suffixes doesn't have, or not whole. */
const suffixes: readonly string[] = [
  ...['nip.io', 'sslip.io', 'xip.io', 'traefik.me', 'localtest.me', 'lvh.me'],
  ...[
    'auth0.com',
    'okta.com',
    'oktapreview.com',
    'onelogin.com',
    'b2clogin.com',
    'ciamlogin.com',
    'frontegg.com',
  ],
  ...[
    'zendesk.com',
    'freshdesk.com',
    'freshservice.com',
    'helpscoutdocs.com',
    'intercom.help',
    'statuspage.io',
  ],
  ...['atlassian.net', 'jira.com', 'notion.site', 'gitbook.io', 'readme.io', 'webflow.io'],
  ...[
    'amazonaws.com',
    'awsapprunner.com',
    'cloudfront.net',
    'azurewebsites.net',
    'azure-api.net',
    'core.windows.net',
  ],
  ...[
    'cloudapp.net',
    'cloudapp.azure.com',
    'openai.azure.com',
    'azureedge.net',
    'run.app',
    'appspot.com',
    'cloudfunctions.net',
    'web.app',
  ],
  ...['googleusercontent.com', 'firebaseio.com', 'firebaseapp.com', 'workers.dev', 'pages.dev', 'r2.dev'],
  ...[
    'herokuapp.com',
    'vercel.app',
    'now.sh',
    'netlify.app',
    'fly.dev',
    'onrender.com',
    'railway.app',
    'deno.dev',
  ],
  ...[
    'github.io',
    'githubpreview.dev',
    'app.github.dev',
    'gitlab.io',
    'glitch.me',
    'repl.co',
    'replit.app',
    'replit.dev',
  ],
  ...[
    'ngrok.io',
    'ngrok.app',
    'ngrok.dev',
    'ngrok-free.app',
    'ngrok-free.dev',
    'ngrok.pizza',
    'trycloudflare.com',
  ],
  ...[
    'loca.lt',
    'localhost.run',
    'lhr.life',
    'serveo.net',
    'pagekite.me',
    'ts.net',
    'pipedream.net',
    'webhook.site',
  ],
  ...[
    'requestcatcher.com',
    'oast.fun',
    'oastify.com',
    'burpcollaborator.net',
    'interact.sh',
    'beeceptor.com',
  ],
  ...['myshopify.com', 'my.salesforce.com', 'force.com', 'my.site.com', 'service-now.com', 'sharepoint.com'],
  ...[
    'snowflakecomputing.com',
    'databricks.com',
    'azuredatabricks.net',
    'supabase.co',
    'mongodb.net',
    'upstash.io',
  ],
  ...[
    'duckdns.org',
    'no-ip.org',
    'ddns.net',
    'dyndns.org',
    'hopto.org',
    'sytes.net',
    'zapto.org',
    'mybluehost.me',
  ],
];

/**
 * The suffix under which anybody can get names, that a host without port and wildcard is under, or is itself; null: none
 * that is known. The host of a company that gives such names (`api.slack.com`) may be under it, too.
 */
export function sharedSuffixOf(name: string): string | null {
  const known = suffixes
    .filter((suffix) => name === suffix || name.endsWith(`.${suffix}`))
    .sort((a, b) => b.length - a.length)[0];
  return registrationOf(name).sharedSuffix ?? known ?? null;
}

/** Whose suffixes come in regions, too: `us.auth0.com`, `execute-api.eu-west-1.amazonaws.com`. */
const regional: ReadonlySet<string> = new Set(['auth0.com', 'amazonaws.com', 'snowflakecomputing.com']);
const regionLabel = /^([a-z]{2}(-[a-z]+)*(-\d+)?|execute-api|lambda-url|s3)$/;

/** Whether names right under this one are given to strangers: it is such a suffix itself, or a region of one. */
export function isGivenAway(name: string): boolean {
  const suffix = suffixes.find((each) => name === each || (regional.has(each) && name.endsWith(`.${each}`)));
  if (suffix === undefined || suffix === name) return suffix !== undefined;
  return name
    .slice(0, -suffix.length - 1)
    .split('.')
    .every((label) => regionLabel.test(label));
}
