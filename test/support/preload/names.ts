import dns from 'node:dns';
import { isMainThread } from 'node:worker_threads';

/*
 * Preloaded into a broker (`--import`): what a machine would say on which every name below `.test` is
 * in the hosts file, at 127.0.0.1. Clients can't be given `localhost`: they go past a proxy for it.
 */

type Lookup = (
  name: string,
  options: dns.LookupAllOptions,
  done: (error: NodeJS.ErrnoException | null, found: dns.LookupAddress[]) => void,
) => void;

if (!isMainThread) {
  const system = dns.lookup as Lookup;
  const lookup: Lookup = (name, options, done) => {
    if (!name.endsWith('.test')) system(name, options, done);
    else setImmediate(done, null, [{ address: '127.0.0.1', family: 4 }]);
  };
  Object.assign(dns, { lookup });
}
