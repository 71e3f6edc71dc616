// A client that knows nothing of the broker: fetch as it comes, led by the environment alone.
// Usage: client.mjs URL...
console.log(
  Object.entries(process.env)
    .map((entry) => entry.join('='))
    .join('\n'),
);

for (const url of process.argv.slice(2)) {
  const headers = url.includes('passthrough') ? { authorization: 'Bearer the-clients-own' } : {};
  for (const method of ['GET', 'POST']) {
    const body = method === 'POST' ? 'body '.repeat(1000) : undefined;
    const answer = await fetch(url, { method, headers, body });
    console.log(answer.status, method, url, await answer.text(), Object.fromEntries(answer.headers));
  }
}
