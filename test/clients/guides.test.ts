import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  embeddingOf,
  labelOf,
  logitsOf,
  makeGuideModel,
  makeGuidePipeline,
  probabilitiesOf,
} from '../fixtures/guides/models.ts';
import { readGuides } from '../fixtures/guides/printed.ts';
import { ROOT } from '../support/process.ts';
import { pythonWithClients, run } from '../support/python.ts';
import { until } from '../support/redis.ts';
import { scrape } from '../support/scrape.ts';
import { type Server, startServer } from '../support/serving.ts';

const shell = promisify(execFile);
const guides = readGuides();
const MODELS = ['clip_image_encoder', 'densenet_onnx', 'text_classifier'];

const MEANS = [0.481, 0.457, 0.408];
const DEVIATIONS = [0.268, 0.261, 0.275];

let python = '';
let folder = '';

beforeAll(async () => {
  python = await pythonWithClients();
  folder = await mkdtemp(join(tmpdir(), 'millrace-guides-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe.each(['serve', 'pool'] as const)('what the guides print, with %s', (serving) => {
  let server: Server;

  beforeAll(async () => {
    const repository = join(folder, serving);
    for (const model of MODELS) makeGuideModel(repository, model, guides.config(model));
    makeGuidePipeline(repository, guides.config('rag_pipeline'));
    const options = guides.serverOptions
      .map((option) => option.replace('=/models', `=${repository}`).replace('=8002', '=0'))
      .filter((option, index, all) => all.indexOf(option) === index);
    server = await startServer(serving, options, 1);
  });
  afterAll(() => server.stop());

  test('the start lines have the options that were tried here', () => {
    const names = new Set(guides.serverOptions.map((option) => option.split('=')[0]));
    expect(names).toEqual(new Set(['--model-repository', '--log-verbose', '--metrics-port', '--strict-model-config']));
  });

  test('the first client gets the vector of its own image', async () => {
    const colours = Array.from({ length: 10 }, (_, i) => [i * 25, 255 - i * 20, 7 * i]);
    const vectors = (await program('embed_image.py', ...colours.map(String))) as number[][];
    expect(vectors).toHaveLength(colours.length);
    for (const [index, colour] of colours.entries()) {
      const channels = colour.map((value, i) => (value / 255 - MEANS[i]!) / DEVIATIONS[i]!);
      expectClose(vectors[index]!, embeddingOf(channels));
    }
  });

  test('requests that arrive together share an execution', async () => {
    const count = async (name: string) => {
      const samples = await scrape(server.metricsUrl);
      return samples.get(`${name}{model="clip_image_encoder",version="1"}`) ?? Number.NaN;
    };
    const shared = async () => (await count('nv_inference_exec_count')) < (await count('nv_inference_count'));
    const colours = Array.from({ length: 16 }, (_, i) => `${i},${i},${i}`);
    // How many share depends on how fast they are sent; that some do does not, for long.
    await until(
      'some of them share',
      async () => {
        await program('embed_image.py', ...colours);
        return shared();
      },
      60_000,
    );
  });

  test('the second client gets the five best classes, from its own sorting and from the server', async () => {
    const answer = (await program('classify_image.py')) as {
      means: number[];
      shape: number[];
      best: number[];
      scores: number[];
      classes: string[];
    };
    const probabilities = probabilitiesOf(answer.means);
    const best = [...probabilities.keys()].sort((a, b) => probabilities[b]! - probabilities[a]!).slice(0, 5);
    expect(answer.shape).toEqual([1, 1000]);
    expect(answer.best).toEqual(best);
    expectClose(
      answer.scores,
      best.map((index) => probabilities[index]!),
    );
    expect(answer.classes.map((entry) => Number(entry.split(':')[1]))).toEqual(best);
  });

  test('the third client gets the logits of its tokens', async () => {
    const ids = [101, 7592, 2088, 30_521, 102];
    const answer = (await program('classify_text.py', ...ids.map(String))) as { shape: number[]; logits: number[] };
    expect(answer.shape).toEqual([1, 2]);
    expectClose(answer.logits, logitsOf([...ids, ...Array<number>(512 - ids.length).fill(0)]));
  });

  test('the pipeline gives each text the label of its second model', async () => {
    const texts = ['a fast queue', 'slow slow server', 'model answer answer', 'nothing that it knows'];
    expect(await program('run_pipeline.py', ...texts)).toEqual(texts.map(labelOf));
  });

  test('the look at the metrics finds the counters that the guide names', async () => {
    const line = guides.metricsLine.replace('http://localhost:8002/metrics', server.metricsUrl);
    expect(line).not.toBe(guides.metricsLine);
    expect(guides.metrics.length).toBeGreaterThan(2);
    for (const metric of guides.metrics) {
      const labels = '{model="text_classifier",version="1"}';
      await until(`${metric} counts`, async () => {
        const { stdout } = await shell('/bin/sh', ['-c', line]);
        const found = stdout.split('\n').find((sample) => sample.startsWith(`${metric}${labels} `));
        return found !== undefined && Number(found.split(' ').at(-1)) > 0;
      });
    }
  });

  async function program(name: string, ...args: string[]): Promise<unknown> {
    const file = join(ROOT, 'test', 'clients', 'guides', name);
    const { code, text } = await run(python, [file, server.grpcAddress, ...args]);
    expect(code, text).toBe(0);
    return JSON.parse(text);
  }
});

describe('what the guides print that needs more than this server has', () => {
  let server: Server;
  let states: { name: string; state: string; reason?: string }[];

  beforeAll(async () => {
    const repository = join(folder, 'not-here');
    const config = guides.config('text_classifier').replace(/^name.*$/m, '');
    makeGuideModel(repository, 'text_classifier', config + guides.gpuGroup);
    // The same line for a machine without a GPU: what the guide's table lets one choose.
    const onCpu = guides.gpuGroup.replace('KIND_GPU', 'KIND_CPU');
    makeGuideModel(join(folder, 'cpu'), 'text_classifier', config + onCpu);
    makeGuideModel(join(folder, 'table'), 'densenet_onnx', guides.config('densenet_onnx') + TABLE);
    mkdirSync(join(repository, 'embedding_model', '1'), { recursive: true });
    writeFileSync(join(repository, 'embedding_model', '1', 'model.pt'), 'weights');
    server = await startServer('serve', [`--model-repository=${repository}`, '--exit-on-error=false']);
    const index = await fetch(`${server.url}/v2/repository/index`, { method: 'POST' });
    states = (await index.json()) as typeof states;
  });
  afterAll(() => server.stop());

  test('a group on a GPU is a failed load that says so, never a silent CPU', () => {
    const state = states.find(({ name }) => name === 'text_classifier');
    expect(state).toMatchObject({ state: 'UNAVAILABLE', reason: expect.stringContaining('KIND_GPU') as string });
  });

  test('a PyTorch file is a failed load that names the backend', () => {
    const state = states.find(({ name }) => name === 'embedding_model');
    expect(state).toMatchObject({ state: 'UNAVAILABLE', reason: expect.stringContaining('pytorch') as string });
  });

  test('with KIND_CPU in place of KIND_GPU, and with the values of the table, the models are served', async () => {
    const repositories = ['cpu', 'table'].map((name) => `--model-repository=${join(folder, name)}`);
    const other = await startServer('serve', repositories);
    try {
      const config = async (model: string) => (await fetch(`${other.url}/v2/models/${model}/config`)).json();
      expect(await config('text_classifier')).toMatchObject({ instance_group: [{ count: 2, kind: 'KIND_CPU' }] });
      expect(await config('densenet_onnx')).toMatchObject({
        dynamic_batching: { preferred_batch_size: [4, 8] },
        version_policy: { latest: { num_versions: 1 } },
      });
    } finally {
      await other.stop();
    }
  });
});

/** The example values of the second guide's table of settings. */
const TABLE = [
  'dynamic_batching { preferred_batch_size: [4,8] }',
  'instance_group [ { count: 2, kind: KIND_CPU } ]',
  'version_policy { latest: { num_versions: 1 } }',
].join('\n');

function expectClose(values: readonly number[], wanted: readonly number[]): void {
  expect(values).toHaveLength(wanted.length);
  for (const [index, value] of values.entries()) expect(value).toBeCloseTo(wanted[index]!, 3);
}
