import { readdirSync, readFileSync } from 'node:fs';
import { Registry } from 'prom-client';
import { describe, expect, it, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { COMMAND_FLAGS, FLAGS } from '../../../cli/flags/catalogue.ts';
import { environmentName } from '../../../cli/flags/flag.ts';
import { parseFlags } from '../../../cli/flags/parse-flags.ts';
import { parseRestrictions } from '../../../producer/service/restricted-access.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { startMetricsServer } from '../../../shared/runtime/metrics-server.ts';
import { registerPoolMetrics } from '../../../shared/runtime/pool-metrics.ts';
import { QUEUE_PREFIX, queueName } from '../../../shared/wire/names.ts';
import { FakeDispatcher, fakeModel } from '../../support/fake-dispatcher.ts';
import { testApp } from '../../support/http-app.ts';

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
  readonly periodSeconds: number;
  readonly failureThreshold?: number;
}

interface Container {
  readonly name: string;
  readonly args: readonly string[];
  readonly env?: readonly { readonly name: string; readonly valueFrom: { secretKeyRef: Record<string, string> } }[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly startupProbe: Probe;
  readonly readinessProbe: Probe;
  readonly livenessProbe: Probe;
  readonly lifecycle?: { readonly preStop: { readonly exec: { readonly command: readonly string[] } } };
  readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string; readonly readOnly?: boolean }[];
}

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly stringData?: Readonly<Record<string, string>>;
  readonly spec: {
    readonly replicas?: number;
    readonly selector: Readonly<Record<string, unknown>>;
    readonly ports?: readonly { readonly port: number; readonly targetPort?: string }[];
    readonly scaleTargetRef?: { readonly name: string };
    readonly minReplicaCount?: number;
    readonly maxReplicaCount?: number;
    readonly triggers?: readonly { readonly type: string; readonly metadata: Readonly<Record<string, string>> }[];
    readonly template?: {
      readonly metadata: { readonly labels: Record<string, string>; readonly annotations?: Record<string, string> };
      readonly spec: {
        readonly terminationGracePeriodSeconds: number;
        readonly containers: readonly Container[];
        readonly volumes?: readonly { readonly name: string }[];
      };
    };
  };
}

const folder = new URL('../../../examples/kubernetes/', import.meta.url);
const files = readdirSync(folder).filter((name) => name.endsWith('.yaml'));
const manifests = new Map(files.map((name) => [name, read(name)]));
const all = [...manifests.values()].flat();

function read(name: string): Manifest[] {
  return parseAllDocuments(readFileSync(new URL(name, folder), 'utf8')).map((document) => {
    expect(document.errors).toEqual([]);
    return document.toJS() as Manifest; // the shape is what the tests are about; a wrong one makes them fail
  });
}

function only(file: string, kind: string): Manifest {
  const found = manifests.get(file)!.filter((manifest) => manifest.kind === kind);
  expect(found).toHaveLength(1);
  return found[0]!;
}

const producer = only('producer.yaml', 'Deployment');
const worker = only('worker.yaml', 'Deployment');
const DEPLOYMENTS = [
  { name: 'producer' as const, manifest: producer },
  { name: 'worker' as const, manifest: worker },
  { name: 'worker' as const, manifest: only('worker-gpu.yaml', 'Deployment') },
];

function containerOf({ spec }: Manifest): Container {
  return spec.template!.spec.containers[0]!;
}

function settingsOf(name: 'producer' | 'worker', manifest: Manifest) {
  const [command, ...args] = containerOf(manifest).args;
  expect(command).toBe(name);
  return parseFlags(name, args, {});
}

describe.each(DEPLOYMENTS)('the $name Deployment', ({ name, manifest }) => {
  const container = containerOf(manifest);

  it('starts a command line that the program takes, at the Redis that is there', () => {
    const { redis } = settingsOf(name, manifest);
    const service = only('redis.yaml', 'Service');
    expect(redis).toBe(`redis://${service.metadata.name}:${service.spec.ports![0]!.port}`);
  });

  it('selects its own pods', () => {
    expect(manifest.spec.selector).toEqual({ matchLabels: manifest.spec.template!.metadata.labels });
  });

  it('names the ports on which the program listens unless told otherwise', () => {
    const flags = { http: FLAGS.httpPort, grpc: FLAGS.grpcPort, metrics: FLAGS.metricsPort };
    for (const { name: port, containerPort } of container.ports) {
      expect(containerPort).toBe(flags[port as keyof typeof flags].default);
    }
    expect(container.args.some((arg) => /-port=/.test(arg))).toBe(false);
    const { annotations = {} } = manifest.spec.template!.metadata;
    expect(annotations['prometheus.io/port']).toBe(String(FLAGS.metricsPort.default));
  });

  it('has probes at ports that it names, and none that needs Redis or the models to stay alive', () => {
    for (const probe of [container.startupProbe, container.readinessProbe, container.livenessProbe]) {
      expect(container.ports.map((port) => port.name)).toContain(probe.httpGet.port);
    }
    expect(container.livenessProbe.httpGet.path).toBe('/v2/health/live');
    expect(container.readinessProbe.httpGet.path).toBe('/v2/health/ready');
  });

  it('gets the time that it takes to shut down', () => {
    const preStop = Number(container.lifecycle?.preStop.exec.command[1] ?? 0);
    const { exitTimeoutSecs } = settingsOf(name, manifest);
    expect(manifest.spec.template!.spec.terminationGracePeriodSeconds).toBeGreaterThan(exitTimeoutSecs + preStop + 2);
  });

  it('sets only variables that the program reads, from a Secret that is there', () => {
    const known = COMMAND_FLAGS[name].map((key) => environmentName(FLAGS[key]));
    const secret = only('producer.yaml', 'Secret');
    for (const { name: variable, valueFrom } of container.env ?? []) {
      expect(known).toContain(variable);
      expect(valueFrom.secretKeyRef['name']).toBe(secret.metadata.name);
      expect(Object.keys(secret.stringData!)).toContain(valueFrom.secretKeyRef['key']);
    }
  });
});

test('the probes of producers are answered by its HTTP server', async () => {
  const app = testApp(new FakeDispatcher([fakeModel('m')]));
  for (const path of probePaths(containerOf(producer))) {
    expect((await app.inject({ method: 'GET', url: path })).statusCode).toBe(200);
  }
  await app.close();
});

test('the probes of workers are answered by the server of their metrics, on the port for those', async () => {
  const { startupProbe, readinessProbe, livenessProbe } = containerOf(worker);
  let ready: { ok: true } | { ok: false; reason: string } = { ok: false, reason: 'the worker is shutting down' };
  const options = { registry: new Registry(), ready: () => ready, host: '127.0.0.1', port: 0, logger: silentLogger };
  const server = await startMetricsServer(options);
  const statusOf = async ({ httpGet: { path, port } }: Probe) => {
    expect(port).toBe('metrics');
    return (await fetch(`http://127.0.0.1:${server.port}${path}`)).status;
  };
  expect(await Promise.all([startupProbe, readinessProbe, livenessProbe].map(statusOf))).toEqual([400, 400, 200]);
  ready = { ok: true };
  expect(await Promise.all([startupProbe, readinessProbe, livenessProbe].map(statusOf))).toEqual([200, 200, 200]);
  await server.close();
});

test('the key of the pool is a rule that the producer takes', () => {
  const { stringData } = only('producer.yaml', 'Secret');
  const rules = parseRestrictions('--http-restricted-api', [stringData!['restricted-api']!]);
  expect(rules.keyOf('pool')).toBe('millrace-key');
  expect(rules.keyOf('health')).toBeUndefined(); // the probes send no header
});

test('producers take requests while there is no worker, for longer than a worker takes to start', () => {
  const settings = parseFlags('producer', containerOf(producer).args.slice(1), {});
  expect(settings.strictReadiness).toBe(false);
  expect(settings.requestTimeoutMs).toBeGreaterThanOrEqual(120_000);
});

test('workers have their models from a volume, to read only, and their number from KEDA', () => {
  const { volumeMounts } = containerOf(worker);
  expect(volumeMounts).toEqual([{ name: 'models', mountPath: '/models', readOnly: true }]);
  expect(worker.spec.template!.spec.volumes!.map(({ name }) => name)).toEqual(['models']);
  expect(settingsOf('worker', worker)).toMatchObject({ modelRepository: ['/models'] });
  expect(worker.spec.replicas).toBeUndefined();
});

test('the Service leads to ports of the producers', () => {
  const { spec } = only('producer.yaml', 'Service');
  expect(spec.selector).toEqual(producer.spec.template!.metadata.labels);
  for (const { targetPort } of spec.ports!) {
    expect(containerOf(producer).ports.map(({ name }) => name)).toContain(targetPort);
  }
});

describe.each(['keda-prometheus.yaml', 'keda-redis.yaml'])('%s', (file) => {
  const { spec } = only(file, 'ScaledObject');

  it('scales the workers, to none and to what producers may wish for', () => {
    const settings = parseFlags('producer', containerOf(producer).args.slice(1), {});
    expect(spec.scaleTargetRef!.name).toBe(worker.metadata.name);
    expect(spec).toMatchObject({ minReplicaCount: 0, maxReplicaCount: settings.maxDesiredWorkers });
  });
});

test('the Prometheus scaler asks for a metric that producers have', async () => {
  const registry = new Registry();
  registerPoolMetrics(registry, { desiredWorkers: 3, models: [], workers: () => [] });
  const { metadata } = only('keda-prometheus.yaml', 'ScaledObject').spec.triggers![0]!;
  const [, metric] = /^max\((\w+)\)$/.exec(metadata['query']!)!;
  expect(await registry.metrics()).toContain(`\n${metric} 3\n`);
  expect(metadata).toMatchObject({ threshold: '1', activationThreshold: '0', ignoreNullValues: 'false' });
});

test('the Redis scaler looks at the list in which jobs of a model wait', () => {
  const { metadata } = only('keda-redis.yaml', 'ScaledObject').spec.triggers![0]!;
  const service = only('redis.yaml', 'Service');
  expect(metadata['address']).toBe(`${service.metadata.name}:${service.spec.ports![0]!.port}`);
  expect(metadata['listName']).toBe(`${QUEUE_PREFIX}:${queueName('minilm')}:wait`);
});

test('every manifest is of a kind that is meant', () => {
  expect(new Set(all.map(({ apiVersion, kind }) => `${apiVersion} ${kind}`))).toEqual(
    new Set(['v1 Service', 'v1 Secret', 'apps/v1 StatefulSet', 'apps/v1 Deployment', 'keda.sh/v1alpha1 ScaledObject']),
  );
});

function probePaths({ startupProbe, readinessProbe, livenessProbe }: Container): Set<string> {
  return new Set([startupProbe, readinessProbe, livenessProbe].map(({ httpGet }) => httpGet.path));
}
