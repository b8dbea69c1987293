import { connect, type Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';

/** Listens on a free port of the loopback and gives it. */
export async function listen(app: FastifyInstance): Promise<number> {
  const address = await app.listen({ host: '127.0.0.1', port: 0 });
  return Number(new URL(address).port);
}

/** A connection on which a test writes HTTP by hand. */
export class RawConnection {
  readonly socket: Socket;
  received = '';
  closed = false;
  #changed: () => void = () => undefined;

  constructor(port: number) {
    this.socket = connect(port, '127.0.0.1');
    this.socket.on('data', (chunk) => {
      this.received += chunk.toString('latin1');
      this.#changed();
    });
    this.socket.on('error', () => undefined); // a reset shows as `closed`
    this.socket.on('close', () => {
      this.closed = true;
      this.#changed();
    });
  }

  send(text: string | Uint8Array): void {
    this.socket.write(text);
  }

  /** Sends a complete POST of an infer request. */
  sendInfer(model: string, body: string, headers = ''): void {
    this.send(
      `POST /v2/models/${model}/infer HTTP/1.1\r\nHost: x\r\n${headers}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    );
  }

  /** Waits until what has been received matches. */
  async until(pattern: RegExp): Promise<void> {
    while (!pattern.test(this.received)) {
      if (this.closed) throw new Error(`closed before ${String(pattern)}: ${this.received.slice(0, 500)}`);
      await this.#change();
    }
  }

  async untilClosed(): Promise<void> {
    while (!this.closed) await this.#change();
  }

  /** Forgets what has been received. */
  clear(): void {
    this.received = '';
  }

  #change(): Promise<void> {
    return new Promise((resolve) => (this.#changed = resolve));
  }
}
