import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import type { CommandName } from '../../../cli/flags/catalogue.ts';
import { COMMAND_FLAGS, FLAGS } from '../../../cli/flags/catalogue.ts';
import { environmentName } from '../../../cli/flags/flag.ts';
import { parseFlags } from '../../../cli/flags/parse-flags.ts';

interface Service {
  image: string;
  build?: string;
  command: string[];
  environment?: Record<string, string>;
  ports?: string[];
  volumes?: string[];
  depends_on?: Record<string, { condition: string }>;
  healthcheck?: { test: string[] };
  stop_grace_period?: string;
  container_name?: string;
}

const root = new URL('../../../', import.meta.url);
// The shape is what the tests below are about; a wrong one makes them fail.
const compose = parse(readFileSync(new URL('docker-compose.yml', root), 'utf8')) as {
  services: Record<string, Service>;
  volumes: Record<string, unknown>;
};
const { redis, producer, worker } = compose.services as { redis: Service; producer: Service; worker: Service };

/** As compose does it: `${NAME:-preset}` with nothing set. */
function preset(text: string): string {
  return text.replace(/\$\{\w+:-([^}]*)\}/g, '$1');
}

describe('docker-compose.yml', () => {
  it('has redis, a producer and workers', () => {
    expect(Object.keys(compose.services)).toEqual(['redis', 'producer', 'worker']);
  });

  it.each(['producer', 'worker'])('starts %s with a command line that the program takes', (name) => {
    const service = compose.services[name]!;
    const [command, ...args] = service.command.map(preset);
    expect(command).toBe(name);
    const environment = Object.fromEntries(
      Object.entries(service.environment ?? {}).map(([key, value]) => [key, preset(value)]),
    );
    const settings = parseFlags(command as CommandName, args, environment);
    expect(settings).toMatchObject({ redis: 'redis://redis:6379' });
  });

  it('sets only environment variables that the program reads', () => {
    for (const name of ['producer', 'worker'] as const) {
      const known = COMMAND_FLAGS[name].map((key) => environmentName(FLAGS[key]));
      expect(known).toEqual(expect.arrayContaining(Object.keys(compose.services[name]?.environment ?? {})));
    }
  });

  it('gives the worker its models, to read only', () => {
    const [volume] = worker.volumes!.map(preset);
    expect(volume).toBe('./examples/models:/models:ro');
    expect(existsSync(new URL(volume!.split(':')[0]!, root))).toBe(true);
    expect(worker.command).toContain('--model-repository=/models');
  });

  it('lets workers be scaled: no name and no port of their own', () => {
    expect(worker.ports).toBeUndefined();
    expect(worker.container_name).toBeUndefined();
    expect(producer.container_name).toBeUndefined();
  });

  it('publishes HTTP and metrics on this machine only, unless told otherwise', () => {
    expect(producer.ports!.map(preset)).toEqual(['127.0.0.1:8000:8000', '127.0.0.1:8001:8001', '127.0.0.1:8002:8002']);
    expect(redis.ports).toBeUndefined();
  });

  it('runs a Redis that refuses rather than forgets', () => {
    const line = redis.command.map(preset).join(' ');
    expect(line).toContain('redis-server --maxmemory-policy noeviction --maxmemory 2gb');
    expect(line).toContain('--appendonly yes --appendfsync everysec');
    expect(redis.healthcheck?.test).toHaveLength(2);
    expect(compose.volumes).toHaveProperty(redis.volumes![0]!.split(':')[0]!);
  });

  it('waits for Redis, and leaves time to finish what is in hand', () => {
    for (const service of [producer, worker]) {
      expect(service.depends_on).toEqual({ redis: { condition: 'service_healthy' } });
      expect(Number.parseInt(service.stop_grace_period!)).toBeGreaterThan(FLAGS.exitTimeoutSecs.default);
      expect(service.build).toBe('.');
    }
  });
});
