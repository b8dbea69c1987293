import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mkdirSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeFixtureModel } from '../fixtures/make-models.ts';
import { writeModel } from '../support/onnx/model.ts';
import { runMillrace } from '../support/process.ts';

/** Configs of the model `simple` as they are found in the wild; all of them say the same (case F01). */
const VARIANTS: Readonly<Record<string, string>> = {
  lists: `platform: "onnxruntime_onnx" max_batch_size: 8
input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ 16 ] }, { name: "INPUT1" data_type: TYPE_INT32 dims: [ 16 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 16 ] }, { name: "OUTPUT1" data_type: TYPE_INT32 dims: [ 16 ] } ]`,
  colons: `platform : "onnxruntime_onnx", max_batch_size : 8;
input: [ { name: "INPUT0", data_type: TYPE_INT32, dims: [ 16 ] }, { name: "INPUT1" data_type: 8 dims: 16 } ]
output: { name: "OUTPUT0" data_type: TYPE_INT32; dims: 0x10 } output: { name: "OUTPUT1" data_type: TYPE_INT32 dims: 020 }
version_policy: { latest: { num_versions: 1 } }`,
  brackets: `\uFEFF# Größe: 入力 {[\r
platform: 'onnxruntime' "_onnx"\r
max_batch_size: 0x8\r
input < name: "INPUT0" data_type: TYPE_INT32 format: FORMAT_NONE dims: 16 >\r
input < name: 'INPUT1' data_type: TYPE_INT32 dims: [ 16 ] >\r
output < name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 16 ] reshape: { shape: [ 16 ] } >\r
output < name: "OUTPUT1" data_type: TYPE_INT32 dims: [ 16 ] >\r
version_policy { specific: { versions: [1] } }\r
parameters: { key: "k", value: { string_value: "v" } }\r
\r
parameters [ { key: "l" value { string_value: "w" } } ]`,
};

interface Report {
  readonly model: string;
  readonly ok: boolean;
  readonly problems: readonly { readonly message: string; readonly fix?: string; readonly shapes?: unknown }[];
}

let repository = '';
let reports: readonly Report[] = [];
const reportOf = (name: string) => reports.find((report) => report.model === name)!;
const mlp = (name: string, config: string) => makeFixtureModel(join(repository, name), 'mlp', config);
const X = 'input { name: "x" data_type: TYPE_FP32 dims: [ 32 ] }';
const Y = 'output { name: "y" data_type: TYPE_FP32 dims: [ 10 ] }';

beforeAll(async () => {
  repository = await mkdtemp(join(tmpdir(), 'millrace-cases-'));
  for (const [name, config] of Object.entries(VARIANTS)) makeFixtureModel(join(repository, name), 'simple', config);
  fixed('whole_shape', 'max_batch_size: 1', '[ 1, 3, 30, 30 ]');
  fixed('fixed_batch', 'max_batch_size: 4', '[ 3, 30, 30 ]');
  mlp('no_config', '');
  await rm(join(repository, 'no_config', 'config.pbtxt'));
  mlp('only_backend', 'backend: "onnxruntime"\n');
  mlp('other_name', `name: "mlp"\nmax_batch_size: 8 ${X} ${Y}`);
  mlp('wrong_type', `max_batch_size: 8\ninput { name: "x" data_type: TYPE_FP64 dims: [ 32 ] } ${Y}`);
  makeFixtureModel(
    join(repository, 'other_order'),
    'simple',
    `max_batch_size: 8 input [ { name: "INPUT1" data_type: TYPE_INT32 dims: 16 }, { name: "INPUT0" data_type: TYPE_INT32 dims: 16 } ]
     output { name: "OUTPUT1" data_type: TYPE_INT32 dims: 16 }`,
  );
  const { stdout } = await runMillrace(['model', 'check', '--json', `--model-repository=${repository}`]);
  reports = (JSON.parse(stdout) as { models: Report[] }).models;
});
afterAll(() => rm(repository, { recursive: true, force: true }));

function fixed(name: string, rest: string, dims: string): void {
  writeModel(join(repository, name, '1', 'model.onnx'), {
    inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 3, 30, 30] }],
    outputs: [{ name: 'y', datatype: 'FP32', shape: [1, 3, 30, 30] }],
    nodes: [{ op: 'Identity', inputs: ['x'], outputs: ['y'] }],
  });
  const tensor = (each: string) => `{ name: "${each}" data_type: TYPE_FP32 dims: ${dims} }`;
  mkdirSync(join(repository, name), { recursive: true });
  writeFileSync(join(repository, name, 'config.pbtxt'), `${rest}\ninput ${tensor('x')}\noutput ${tensor('y')}\n`);
}

async function completed(name: string): Promise<string> {
  const { stdout } = await runMillrace(['model', 'explain', name, '--json', `--model-repository=${repository}`]);
  return (JSON.parse(stdout) as { config: string }).config;
}

describe('configs as people have them', () => {
  test.each(Object.keys(VARIANTS))('F01: %s', (name) => {
    expect(reportOf(name)).toMatchObject({ ok: true, problems: [] });
  });

  test('F03: dims that hold the batch dimension as well are shown in all three forms, with the one change', () => {
    const { problems } = reportOf('whole_shape');
    expect(problems).toHaveLength(2);
    expect(problems[0]).toMatchObject({
      shapes: { config: [1, 3, 30, 30], maxBatchSize: 1, effective: [-1, 1, 3, 30, 30], model: [1, 3, 30, 30] },
      fix: 'set max_batch_size: 0',
    });
  });

  test('F04: a model whose dimension 0 is fixed cannot have max_batch_size', () => {
    const { ok, problems } = reportOf('fixed_batch');
    expect(ok).toBe(false);
    expect(problems[0]?.fix).toContain('dimension 0 of the model is fixed to 1');
    expect(problems[0]?.fix).toContain('set max_batch_size: 0 and dims: [ 1, 3, 30, 30 ]');
  });

  test.each(['no_config', 'only_backend'])('F06: %s is completed from the file', async (name) => {
    expect(reportOf(name).ok).toBe(true);
    const config = await completed(name);
    expect(config).toContain('max_batch_size: 4\n');
    expect(config).toContain('input {\n  name: "x"\n  data_type: TYPE_FP32\n  dims: [ 32 ]\n}\n');
    expect(config).toContain('dynamic_batching { preferred_batch_size: [ 4 ] }\n');
  });

  test('F07: a name that is not the folder’s is refused with both', () => {
    const { problems } = reportOf('other_name');
    expect(problems).toEqual([
      expect.objectContaining({
        message: 'the config has name "mlp", the folder is "other_name"',
        line: 1,
        column: 1,
        fix: 'set name: "other_name", or leave it out',
      }),
    ]);
  });

  test('F07: a wrong data type is refused with both', () => {
    const { problems } = reportOf('wrong_type');
    expect(problems).toEqual([
      expect.objectContaining({
        message: 'input "x": the config has data_type TYPE_FP64, the model file has TYPE_FP32',
        line: 2,
        column: 19,
        fix: 'set data_type: TYPE_FP32',
      }),
    ]);
  });

  test('F07: another order of the inputs and a part of the outputs are fine', () => {
    expect(reportOf('other_order')).toMatchObject({ ok: true, problems: [] });
  });
});
