import { formatIpv6 } from '../actors/vault/authority.ts';
import { networkOf } from '../actors/vault/network.ts';

/** What this needs of a connection or request of uWebSockets.js, and of its apps. */
interface Response {
  onAborted(told: () => void): unknown;
  onData(told: (chunk: ArrayBuffer, isLast: boolean) => void): unknown;
  close(): unknown;
  getRemoteAddress(): ArrayBuffer;
}
interface App<R extends Response, Q> {
  filter(told: (res: R, count: number) => void): unknown;
  any(pattern: string, serve: (res: R, req: Q) => void): unknown;
}

/** What comes of one request on a connection. */
export interface Arriving {
  /** The next piece of its body; valid until this returns. */
  onData(chunk: ArrayBuffer, isLast: boolean): void;
  onAborted(): void;
}

/** One connection of a client. */
interface Connection {
  /** From before its first request on. Ended by the server where nobody waits for an answer. */
  readonly res: Response;
  readonly network: Network;
  request: Arriving | null;
  /** The body of that has come to its end. */
  isWhole: boolean;
}

interface Network {
  /** Empty: our own Unix socket. */
  readonly name: string;
  open: number;
  /** Those without a request, the one that has been so for longest first. */
  readonly idle: Set<Connection>;
}

/**
 * The connections to the API. They are bounded, in all and for each network, so that they leave the process descriptors to
 * work with: where one is too many, the one that has been without a request for longest is closed, and where all of its
 * network's have one, the new one. Whoever comes with a request thus gets in, however many are there and silent. Our own
 * Unix socket, which is the operator's alone, has no bound.
 *
 * uWebSockets.js tells that a connection was opened, and that one was closed, but not which. So each has handlers from its
 * start on (before a request and between two they are ours), and takes the request that arrives by the first piece of its
 * body, which comes in the same turn, even where it is empty. Only a chunked body may come later: its connection stays
 * unknown, and ends with the answer; so does one whose request is answered before its body has come, since the end of that
 * takes the handler away which the next request would be known by. To touch one that is gone would be the end of the process: so where it isn't known
 * which one has begun a request, or is gone, none of its network counts as idle until it has rested again.
 */
export class Connections {
  readonly #most: number;
  readonly #networks = new Map<string, Network>();
  #open = 0;
  #arriving: Arriving | null = null;
  readonly #of = new WeakMap<Arriving, Connection>();
  readonly #from = new WeakMap<Arriving, Network>();

  /** @param most connections by TCP; one network has half of them */
  constructor(most: number) {
    this.#most = most;
  }

  /** Serves all requests of an app; `begin` says what comes of one. */
  serve<R extends Response, Q>(
    app: App<R, Q>,
    begin: (res: R, req: Q) => Arriving & { readonly isChunked: boolean },
  ): void {
    const told = (res: R, count: number) => {
      if (count > 0) this.#opened(res);
    };
    app.filter(told);
    app.any('/*', (res, req) => {
      const arriving = begin(res, req);
      const network = this.#networks.get(networkOf(addressOf(res)));
      if (network !== undefined) this.#from.set(arriving, network);
      res.onAborted(() => {
        arriving.onAborted();
        const connection = this.#of.get(arriving);
        if (this.#arriving === arriving) this.#arriving = null;
        if (connection !== undefined) this.#closed(connection);
        else this.#strayed(network);
      });
      this.#arriving = arriving.isChunked ? null : arriving;
      if (!arriving.isChunked) return;
      if (network !== undefined) {
        res.onData(arriving.onData);
        network.idle.clear();
      }
    });
  }

  /** Whether the connection of a request has to end with its answer. */
  isStray(arriving: Arriving): boolean {
    return this.#of.get(arriving)?.isWhole !== true;
  }

  /** The answer to a request was written, in this very call; its connection is without one. */
  rest(arriving: Arriving): void {
    const connection = this.#of.get(arriving);
    if (connection === undefined) {
      this.#strayed(this.#from.get(arriving));
      return;
    }
    if (!connection.isWhole) {
      // It ends with this.
      connection.res.onAborted(() => this.#closed(connection));
      return;
    }
    connection.request = null;
    if (connection.network.name !== '') connection.network.idle.add(connection);
    this.#listen(connection);
  }

  #opened(res: Response): void {
    const name = networkOf(addressOf(res));
    const network = this.#networks.get(name) ?? { name, open: 0, idle: new Set() };
    const connection: Connection = { res, network, request: null, isWhole: true };
    if (name !== '' && !this.#makeRoom(network)) {
      res.close();
      return;
    }
    this.#networks.set(name, network);
    network.open++;
    if (name !== '') {
      this.#open++;
      network.idle.add(connection);
    }
    this.#listen(connection);
  }

  #makeRoom(network: Network): boolean {
    if (network.open >= this.#most / 2) return closeOldest(network);
    if (this.#open < this.#most) return true;
    // Whoever has most gives way.
    const byIdle = [...this.#networks.values()].sort((a, b) => b.idle.size - a.idle.size);
    return closeOldest(byIdle[0]);
  }

  /** Until its next request, which brings handlers of its own. */
  #listen(connection: Connection): void {
    connection.res.onAborted(() => this.#closed(connection));
    connection.res.onData((chunk, isLast) => {
      if (this.#arriving !== null && connection.request === null) {
        connection.request = this.#arriving;
        connection.isWhole = false;
        connection.network.idle.delete(connection);
        this.#of.set(this.#arriving, connection);
        this.#arriving = null;
      }
      connection.isWhole ||= isLast;
      connection.request?.onData(chunk, isLast);
    });
  }

  #closed(connection: Connection): void {
    connection.network.idle.delete(connection);
    this.#left(connection.network);
  }

  /** One of a network is gone, and it isn't known which. */
  #strayed(network: Network | undefined): void {
    if (network === undefined) return;
    network.idle.clear();
    this.#left(network);
  }

  #left(network: Network): void {
    if (network.open === 0) return;
    network.open--;
    if (network.name !== '') this.#open--;
    if (network.open === 0) this.#networks.delete(network.name);
  }
}

function closeOldest(network: Network): boolean {
  const [oldest] = network.idle;
  if (oldest === undefined) return false;
  network.idle.delete(oldest);
  oldest.res.close();
  return true;
}

/** As node:net writes it; empty for a Unix socket. */
export function addressOf(res: Pick<Response, 'getRemoteAddress'>): string {
  const bytes = new Uint8Array(res.getRemoteAddress());
  return bytes.length === 16 ? formatIpv6(bytes) : bytes.join('.');
}
