import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';

export interface RedisServerOptions {
  /** Append-only file, so that data survives `kill` and `start`. Default false. */
  readonly persistent?: boolean;
  /** For example ['--maxmemory', '50mb']. */
  readonly args?: readonly string[];
}

/** A private redis-server on a free port with a folder of its own. */
export class RedisServer {
  readonly port: number;
  readonly url: string;
  readonly #folder: string;
  readonly #options: RedisServerOptions;
  readonly #clients = new Set<Redis>();
  #process: ChildProcess | undefined;

  constructor(port: number, folder: string, options: RedisServerOptions) {
    this.port = port;
    this.url = `redis://127.0.0.1:${port}`;
    this.#folder = folder;
    this.#options = options;
  }

  get pid(): number {
    return this.#process!.pid!;
  }

  /** Starts the server, on the same port and data as before, and waits until it answers. */
  async start(): Promise<void> {
    const { persistent = false, args = [] } = this.#options;
    const child = spawn(
      'redis-server',
      ['--port', String(this.port), '--bind', '127.0.0.1', '--dir', this.#folder, '--save', '']
        .concat(['--appendonly', persistent ? 'yes' : 'no', '--loglevel', 'warning'])
        .concat(args),
      { stdio: ['ignore', 'ignore', 'pipe'] },
    );
    this.#process = child;
    const failed = new Promise<never>((_, reject) => {
      child.once('error', () => reject(new Error(MISSING)));
      child.once('exit', (code) => reject(new Error(`redis-server ended with code ${code}`)));
    });
    failed.catch(() => undefined);
    await Promise.race([failed, this.#answers()]);
  }

  /** As a power cut would: nothing is written, nobody is told. */
  async kill(): Promise<void> {
    const child = this.#process;
    if (child?.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  }

  /** A client for looking; ended by `stop`. */
  client(): Redis {
    const client = new Redis(this.port, '127.0.0.1', { maxRetriesPerRequest: null });
    client.on('error', () => undefined);
    this.#clients.add(client);
    return client;
  }

  async stop(): Promise<void> {
    for (const client of this.#clients) client.disconnect();
    if (this.#process) await this.kill();
    await rm(this.#folder, { recursive: true, force: true });
  }

  async #answers(): Promise<void> {
    const client = new Redis(this.port, '127.0.0.1', { retryStrategy: () => 20, maxRetriesPerRequest: null });
    client.on('error', () => undefined);
    await client.ping();
    client.disconnect();
  }
}

const MISSING =
  'redis-server is missing: install it (Debian and Ubuntu: apt-get install redis-server, macOS: brew install redis)';

export async function startRedis(options: RedisServerOptions = {}): Promise<RedisServer> {
  const folder = await mkdtemp(join(tmpdir(), 'millrace-redis-'));
  const server = new RedisServer(await freePort(), folder, options);
  await server.start();
  return server;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

/** Waits until something is true, looking every few ms; fails with `what` after `timeoutMs`. */
export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
  timeoutMs = 15_000,
): Promise<void> {
  const end = performance.now() + timeoutMs;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`did not happen within ${timeoutMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
