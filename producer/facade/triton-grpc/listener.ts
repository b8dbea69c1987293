import { lookup } from 'node:dns/promises';
import { createServer, type Server, type Socket } from 'node:net';

export interface Listener {
  readonly port: number;
  /** Takes no more connections; those that are open stay. */
  close(): void;
}

/**
 * Opens a port on every address of a host, so that `localhost` is reached by both of its addresses, as for HTTP.
 * @param maxConnections per address; more are closed as they come
 * @throws the system's error with its `code`
 */
export async function listen(
  host: string,
  port: number,
  maxConnections: number,
  onConnection: (socket: Socket) => void,
): Promise<Listener> {
  const addresses = host === 'localhost' ? (await lookup(host, { all: true })).map(({ address }) => address) : [host];
  const servers: Server[] = [];
  let actual = port;
  try {
    for (const address of new Set(addresses)) {
      const server = createServer({ noDelay: true }, onConnection);
      server.maxConnections = maxConnections;
      actual = await open(server, address, actual);
      servers.push(server);
    }
  } catch (error) {
    for (const server of servers) server.close();
    throw error;
  }
  return {
    port: actual,
    close() {
      for (const server of servers) server.close();
    },
  };
}

function open(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host, port }, () => {
      server.removeListener('error', reject);
      const address = server.address();
      resolve(typeof address === 'object' && address !== null ? address.port : port);
    });
  });
}
