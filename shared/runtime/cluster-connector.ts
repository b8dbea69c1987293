import { connect as connectPlain, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { AbstractConnector, Redis, type RedisOptions } from 'ioredis';
import { QUEUE_PREFIX } from '../wire/names.ts';

interface Node {
  readonly host: string;
  readonly port: number;
}

/** [first slot, last slot, [host, port, …] of the master, …] */
type SlotRange = readonly [number, number, readonly [string, number, ...unknown[]], ...unknown[]];

const ASK_TIMEOUT_MS = 1000;

/**
 * Leads a client to the one node of a Redis Cluster that holds our keys, which all share a hash tag and so a slot: every
 * script and pipeline works there as on a single server. Each connection asks anew where that is, of the nodes that it
 * knows from before and those of the address, so it follows failovers and slots that move.
 */
export function clusterConnector(seeds: readonly Node[]): NonNullable<RedisOptions['Connector']> {
  let known: readonly Node[] = [];
  return class ClusterConnector extends AbstractConnector {
    readonly #options: RedisOptions;

    constructor(options: unknown) {
      const ours = options as RedisOptions; // ioredis gives the client's own
      super(ours.disconnectTimeout ?? 2000);
      this.#options = ours;
    }

    override async connect(): Promise<Socket> {
      this.connecting = true;
      const owner = await this.#owner();
      if (this.#isGivenUp()) throw new Error('Connection is closed.');
      const { tls } = this.#options;
      const stream = tls ? connectTls({ ...owner, ...tls }) : connectPlain(owner);
      this.stream = stream;
      stream.once('error', (error: Error) => {
        this.firstError = error;
      });
      return stream;
    }

    /** `disconnect` was called meanwhile. */
    #isGivenUp(): boolean {
      return !this.connecting;
    }

    async #owner(): Promise<Node> {
      let reason = 'no node was given';
      for (const node of [...known, ...seeds]) {
        try {
          const { owner, masters } = await ask(node, this.#options);
          known = masters;
          return owner;
        } catch (error) {
          reason = error instanceof Error ? error.message : String(error);
        }
      }
      throw new Error(`no node of the cluster tells where the queue is: ${reason}`);
    }
  };
}

async function ask(node: Node, options: RedisOptions): Promise<{ owner: Node; masters: Node[] }> {
  const { username, password, tls } = options;
  const client = new Redis({
    ...node,
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(tls && { tls }),
    lazyConnect: true,
    retryStrategy: () => null,
    maxRetriesPerRequest: 0,
    connectTimeout: ASK_TIMEOUT_MS,
    commandTimeout: ASK_TIMEOUT_MS,
  });
  let reason: Error | undefined;
  client.on('error', (error: Error) => (reason = error));
  try {
    const slot = await client.cluster('KEYSLOT', QUEUE_PREFIX);
    const ranges = (await client.cluster('SLOTS')) as unknown as SlotRange[];
    const range = ranges.find(([first, last]) => first <= slot && slot <= last);
    if (!range) throw new Error(`slot ${slot} is not assigned to a node`);
    // A node that does not know its own address leaves it out: it is the one that was asked.
    const nodes = ranges.map(([, , [host, port]]) => ({ host: host || node.host, port }));
    const [host, port] = range[2];
    return { owner: { host: host || node.host, port }, masters: nodes };
  } catch (error) {
    throw reason ?? error;
  } finally {
    client.disconnect();
  }
}
