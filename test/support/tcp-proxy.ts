import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** Carries connections to a port, and can let them vanish without a word, as a firewall that forgets them does. */
export class TcpProxy {
  readonly #target: number;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #swallows = false;

  constructor(target: number) {
    this.#target = target;
    this.#server = createServer((socket) => this.#carry(socket));
  }

  async listen(): Promise<number> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return (this.#server.address() as { port: number }).port;
  }

  /** From now on nothing is carried and nobody is told. Connections of this time stay silent for good. */
  swallow(): void {
    this.#swallows = true;
    for (const socket of this.#sockets) socket.unpipe().pause();
  }

  /** New connections are carried again. */
  carryOn(): void {
    this.#swallows = false;
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #carry(client: Socket): void {
    this.#keep(client);
    if (this.#swallows) {
      client.pause();
      return;
    }
    const server = connect(this.#target, '127.0.0.1');
    this.#keep(server);
    client.pipe(server).pipe(client);
    client.once('close', () => server.destroy());
    server.once('close', () => client.destroy());
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('close', () => this.#sockets.delete(socket));
  }
}
