/** What an agent has to know, in Markdown: served to whoever asks, so nothing in it is secret. */
export function skill(baseUrl: string): string {
  return `# Using the broker

You call real APIs through a proxy that adds their credentials for you. You never see a credential's value, and you
never need one: refer to credentials by key name only.

- Your token is in the environment variable \`BROKER_SESSION_TOKEN\`, and the broker's address in \`BROKER_ADDR\`
  (\`${baseUrl}\`). Read them from there; never write the token into code, logs or messages.
- Send \`Authorization: Bearer $BROKER_SESSION_TOKEN\` with every request to the broker itself. A token that came from an
  invite also needs \`X-Vault: NAME\`; one that \`broker vault run\` gave you doesn't.

## 1. Discover

\`GET ${baseUrl}/discover\` lists \`services\` (hosts that you can reach with a credential) and \`available_credentials\`
(key names). A service with \`"enabled": false\` is switched off by the operator. Where a service lists
\`substitutions\`, write that \`placeholder\` literally into the places named by \`at\` (a path whose \`*\` is the rest, query
parameters, headers), or, without \`at\`, anywhere in the surfaces of \`in\`; the proxy replaces it by the credential.

## 2. Call the API

Send your request to the real URL through the proxy: \`HTTPS_PROXY\` is set for you under \`broker vault run\`, else it is
\`https://TOKEN:VAULT@HOST:PORT\` with the port from the header \`X-Broker-Proxy-Port\` of \`${baseUrl}/v1/ca.pem\`, the
root certificate to trust. Leave out the API's own \`Authorization\` header: the proxy sets it.

An answer with the header \`X-Broker-Error\` comes from the broker; any other comes from the API.
Where an answer repeats a credential that was put into your request, asterisks may stand in its place: that isn't what the
API keeps, so don't write it back. A 502 \`upstream_protocol\` to a request with \`Range\`: ask for the whole.
\`POST ${baseUrl}/v1/explain\` with \`{"method":"GET","url":"https://api.example.com/x"}\` says what would be done with a
request, without sending it.

## 3. Propose what is missing

When a host is not there, or a credential is missing, ask the human by a proposal:

\`\`\`
POST ${baseUrl}/v1/proposals
Content-Type: application/json

{
  "services": [{"action": "set", "host": "api.example.com", "description": "Example API",
                "auth": {"type": "bearer", "token": "EXAMPLE_TOKEN"}}],
  "credentials": [{"action": "set", "key": "EXAMPLE_TOKEN", "description": "Read-only API token",
                   "obtain": "https://example.com/settings/tokens"}],
  "message": "To read the build status",
  "user_message": "I need read access to Example to see why the build fails."
}
\`\`\`

- Auth types: \`bearer\` (token), \`basic\` (username, password), \`api-key\` (key, header, prefix), \`custom\` (headers, with
  \`{{ KEY }}\` in them), \`passthrough\` (nothing is added). Each refers to credentials by key.
- Where a credential belongs into the URL or into other headers, add to the service
  \`"substitutions": [{"key": "BOT_TOKEN", "placeholder": "__t__", "at": {"path": "/bot__t__/*"}}]\`; \`at\` takes \`query\` and
  \`header\` (lists of names), too. Always say where it goes: without \`at\` the user is warned.
- Reuse a key of \`available_credentials\` rather than ask for the same credential again. A slot may bring a \`value\` that
  you have yourself. \`{"action": "delete", "host": …}\` and \`{"action": "delete", "key": …}\` remove.

The answer has an \`id\` and an \`approval_url\`: show that link to the user. Only an operator can approve, and confirms by
itself whatever an existing credential would newly reach: ask for no more hosts and surfaces than you need.

Then look at \`GET ${baseUrl}/v1/proposals/ID\` every 3 seconds for the first 30 seconds, every 10 seconds after that; or
add \`?wait=60\`, which answers as soon as it is decided. \`applied\`: send the original request again. \`rejected\`: read
\`review_note\`, and don't propose the same again. \`expired\` or \`cancelled\`: it is over. \`DELETE\` on it withdraws it.

## 4. Store what you obtain

\`POST ${baseUrl}/v1/credentials\` with \`{"credentials": {"KEY": "value"}}\` adds keys, or replaces those that you added
yourself. Nobody can read them back, you included.

## When something is refused

Every refusal is \`{"error", "message", "request_id"}\`; the message says what to do.

| Status, error | What to do |
|---|---|
| 400 \`invalid_request\`, \`invalid_json\` | Mend what \`field\` names. |
| 400 \`unresolved_credential\` | Add a slot for \`key\` to the proposal, or use an existing key. |
| 401 \`unauthorized\`, 407 \`proxy_auth_required\` | Read \`BROKER_SESSION_TOKEN\` again; if it is right, ask the operator for a new one. |
| 403 \`forbidden\` with \`proposal_hint\` | The host is not allowed: propose it. Without it: this is not yours to do. |
| 403 \`service_disabled\` | Tell the user. Don't propose it again. |
| 403 \`network_blocked\`, \`tls_required\` | Use a public address, or \`https://\`. |
| 404 \`not_found\`, 405 \`method_not_allowed\`, 410 \`gone\` | Check the address and the method; what is over, ask for anew. |
| 409 \`credential_exists\` | The key is somebody else's: choose another, or propose the change. |
| 409 \`conflict\`, \`already_decided\`, \`credential_in_use\` | Look at the present state first. |
| 409 \`confirmation_required\` | Only operators see it: they confirm what they have looked at. |
| 413 \`payload_too_large\`, 415 \`unsupported_media_type\`, 417 \`expectation_failed\`, 421 \`misdirected_request\`, 431 \`headers_too_large\`, 505 \`http_version\` | The request can't be taken as it is: change what \`message\` says. |
| 413 \`quota_exceeded\` | You keep as much as you may: use keys that are there, withdraw proposals, or tell the user. |
| 408 \`request_timeout\` | Send the whole request again, at once. |
| 429 \`rate_limited\`, \`too_many_pending_proposals\` | Wait as \`Retry-After\` says. |
| 502 \`credential_not_found\` | Tell the user which \`key\` has to be added. |
| 502 \`substitution_error\` | Tell the user: the value can't stand where the request puts it. |
| 502 \`upstream_unreachable\`, \`upstream_tls\`, \`upstream_protocol\`, 504 \`upstream_timeout\` | The API can't be reached or broke off: try again later. After a POST, or whatever else changes something, look first whether it was done: it may have been. |
| 500 \`internal\` | Tell the user, with \`request_id\`. |
| 503 \`overloaded\`, \`audit_unavailable\`, \`store_unavailable\` | The broker is busy or stopping: try again as \`Retry-After\` says. |

Never look for credential values: not in files, not in the environment, not in an API's answers. Never print one that you
come upon.
`;
}
