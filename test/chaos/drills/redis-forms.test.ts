import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { runMillrace } from '../../support/process.ts';
import { startRedis } from '../../support/redis.ts';
import { startCluster, startWatched } from '../../support/redis-group.ts';
import { type Drill, drillOn } from '../drill.ts';
import { pause, report } from '../drill-report.ts';

/** About 5 ms of one core. */
const LOOPS = 15;

describe('a pool under load', () => {
  let drill: Drill;
  const afterwards: (() => unknown)[] = [];
  afterEach(async () => {
    await drill.close();
    for (const end of afterwards.splice(0)) await end();
  });

  async function begin() {
    await drill.worker();
    const producer = await drill.producer();
    await drill.known(producer);
    const load = drill.load(producer, 30, LOOPS);
    await drill.steady();
    return { producer, load };
  }

  it('the master of sentinels is killed, its replica takes over', async (context) => {
    const watched = await startWatched();
    afterwards.push(() => watched.stop());
    drill = drillOn(watched.master, watched.url);
    const { producer, load } = await begin();
    const jobs = Array.from({ length: 10 }, () => drill.sendJob(producer, producer, LOOPS));
    await Promise.all(jobs);
    const killedMs = performance.now();
    await watched.master.kill();
    await drill.steady();
    load.stop();
    const { lost, double, firstMs } = report(context, await drill.outcomes(), killedMs);
    expect([lost, double]).toEqual([0, 0]);
    expect(firstMs).toBeLessThan(20_000);
  });

  it('Redis is a cluster of three, and our slot moves to another node', async (context) => {
    const cluster = await startCluster();
    afterwards.push(() => cluster.stop());
    drill = drillOn(cluster.owner(), cluster.url);
    const { producer, load } = await begin();
    const jobs = Array.from({ length: 10 }, () => drill.sendJob(producer, producer, LOOPS));
    await Promise.all(jobs);
    const stranger = cluster.nodes.find((node) => node !== cluster.owner())!;
    const refused = await runMillrace(['producer', `--redis=${stranger.url}`]);
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toContain('expected redis-cluster://host:port');
    const movedMs = performance.now();
    cluster.moveOurs();
    await pause(1000);
    await drill.steady();
    load.stop();
    const { lost, double } = report(context, await drill.outcomes(), movedMs);
    expect([lost, double]).toEqual([0, 0]);
  });

  it('Redis wants a password and TLS, and cuts the connections', async (context) => {
    const folder = mkdtempSync(join(tmpdir(), 'millrace-tls-'));
    afterwards.push(() => rmSync(folder, { recursive: true, force: true }));
    const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
    const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'];
    const make = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '1', '-keyout', key, '-out', cert];
    execFileSync('openssl', [...make, ...subject], { stdio: 'ignore' });
    const spare = await startRedis();
    const tlsPort = spare.port;
    await spare.stop();
    const files = ['--tls-cert-file', cert, '--tls-key-file', key, '--tls-ca-cert-file', cert];
    const tls = ['--tls-port', String(tlsPort), '--tls-auth-clients', 'no', ...files];
    const redis = await startRedis({ args: tls });
    const cutter = redis.client();
    const env = { NODE_EXTRA_CA_CERTS: cert };
    await cutter.acl('SETUSER', 'mill', 'on', '>s3cret', '~{millrace}*', '+@all');
    drill = drillOn(redis, `rediss://mill:s3cret@localhost:${tlsPort}`);
    await drill.worker({ env });
    const producer = await drill.producer({ env });
    await drill.known(producer);
    const load = drill.load(producer, 30, LOOPS);
    await drill.steady();
    const cutMs = performance.now();
    await cutter.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await drill.steady();
    load.stop();
    const { sent, answered, double } = report(context, await drill.outcomes(), cutMs);
    expect([answered, double]).toEqual([sent, 0]);
    const wrong = await runMillrace(['producer', `--redis=rediss://mill:wrong@localhost:${tlsPort}`], { env });
    expect(wrong.code).not.toBe(0);
    expect(wrong.stderr).toContain('WRONGPASS');
    expect(wrong.stderr).not.toContain('mill:wrong');
    const stranger = await runMillrace(['producer', `--redis=rediss://mill:s3cret@localhost:${tlsPort}`]);
    expect(stranger.code).not.toBe(0);
    expect(stranger.stderr).toMatch(/self-signed certificate/);
  });
});
