import { writeFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawn, spawnSync } from 'node:child_process';
import { type RedisServer, startRedis, until } from './redis.ts';

/** A master and its replica, and three sentinels that make the replica the master when the master is gone. */
export interface Watched {
  readonly url: string;
  readonly master: RedisServer;
  readonly replica: RedisServer;
  stop(): Promise<void>;
}

const NAME = 'main';

export async function startWatched(): Promise<Watched> {
  const [master, replica] = await Promise.all([startRedis({ persistent: true }), startRedis({ persistent: true })]);
  await replica.client().replicaof('127.0.0.1', master.port);
  const folder = await mkdtemp(join(tmpdir(), 'millrace-sentinel-'));
  const sentinels = await Promise.all([1, 2, 3].map((number) => startSentinel(folder, number, master.port)));
  await until('the replica follows', async () =>
    (await replica.client().info('replication')).includes('link_status:up'),
  );
  const looker = sentinels.map(({ port }) => port);
  await until('the sentinels know each other', () =>
    looker.every((port) => {
      const text = ask(port, 'SENTINEL', 'MASTER', NAME).split('\n');
      return text[text.indexOf('num-other-sentinels') + 1] === '2' && text[text.indexOf('num-slaves') + 1] === '1';
    }),
  );
  return {
    url: `redis-sentinel://${looker.map((port) => `127.0.0.1:${port}`).join(',')}/${NAME}`,
    master,
    replica,
    async stop() {
      for (const { kill } of sentinels) kill();
      await Promise.all([master.stop(), replica.stop()]);
    },
  };
}

async function startSentinel(folder: string, number: number, masterPort: number) {
  const file = join(folder, `${number}.conf`);
  const spare = await startRedis();
  const { port } = spare;
  await spare.stop(); // only its port is wanted
  const lines = [
    `port ${port}`,
    'bind 127.0.0.1',
    `dir ${folder}`,
    `sentinel monitor ${NAME} 127.0.0.1 ${masterPort} 2`,
    `sentinel down-after-milliseconds ${NAME} 1500`,
    `sentinel failover-timeout ${NAME} 10000`,
  ];
  writeFileSync(file, `${lines.join('\n')}\n`);
  const child = spawn('redis-server', [file, '--sentinel'], { stdio: 'ignore' });
  await until('the sentinel answers', () => ask(port, 'PING').trim() === 'PONG');
  return { port, kill: () => child.kill('SIGKILL') };
}

function ask(port: number, ...command: readonly string[]): string {
  return spawnSync('redis-cli', ['-p', String(port), ...command], { encoding: 'utf8' }).stdout;
}

/** Three masters of a cluster, of which one holds all that is ours. */
export interface RedisCluster {
  readonly url: string;
  readonly nodes: readonly RedisServer[];
  /** The one that holds our slot. */
  owner(): RedisServer;
  /** Gives our slot, with what is in it, to another node. */
  moveOurs(): void;
  stop(): Promise<void>;
}

const TAG = '{millrace}';

export async function startCluster(): Promise<RedisCluster> {
  const args = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '5000'];
  // Each has its bus on a free port too: the usual one is 10,000 above, which may be none.
  const nodes = await Promise.all([1, 2, 3].map(() => startClusterNode(args)));
  const addresses = nodes.map(({ port }) => `127.0.0.1:${port}`);
  const made = spawnSync('redis-cli', ['--cluster', 'create', ...addresses, '--cluster-yes'], { encoding: 'utf8' });
  if (made.status !== 0) throw new Error(`no cluster: ${made.stdout}${made.stderr}`);
  await until('the cluster is up', () =>
    nodes.every(({ port }) => ask(port, 'CLUSTER', 'INFO').includes('cluster_state:ok')),
  );
  const [first] = nodes;
  const slot = ask(first!.port, 'CLUSTER', 'KEYSLOT', TAG).trim();
  const idOf = ({ port }: RedisServer) => ask(port, 'CLUSTER', 'MYID').trim();
  const owner = () => nodes.find(({ port }) => !ask(port, 'EXISTS', TAG).startsWith('MOVED'))!;
  return {
    url: `redis-cluster://${addresses.join(',')}`,
    nodes,
    owner,
    moveOurs() {
      const from = owner();
      const to = nodes.find((node) => node !== from)!;
      ask(to.port, 'CLUSTER', 'SETSLOT', slot, 'IMPORTING', idOf(from));
      ask(from.port, 'CLUSTER', 'SETSLOT', slot, 'MIGRATING', idOf(to));
      for (;;) {
        const keys = ask(from.port, 'CLUSTER', 'GETKEYSINSLOT', slot, '1000').split('\n').filter(Boolean);
        if (keys.length === 0) break;
        ask(from.port, 'MIGRATE', '127.0.0.1', String(to.port), '', '0', '5000', 'REPLACE', 'KEYS', ...keys);
      }
      for (const { port } of [to, from, ...nodes]) ask(port, 'CLUSTER', 'SETSLOT', slot, 'NODE', idOf(to));
    },
    async stop() {
      await Promise.all(nodes.map((node) => node.stop()));
    },
  };
}

async function startClusterNode(args: readonly string[]): Promise<RedisServer> {
  const spare = await startRedis();
  const bus = String(spare.port);
  await spare.stop();
  return startRedis({ args: [...args, '--cluster-port', bus] });
}
