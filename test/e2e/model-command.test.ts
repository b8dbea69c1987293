import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { MODEL_COMMAND_FLAGS, MODEL_FLAGS, type ModelCommandName } from '../../cli/flags/model-catalogue.ts';
import { makeFixtureModel } from '../fixtures/make-models.ts';
import { writeUnbatchable } from '../integration/engine/unbatchable-models.ts';
import { f32 } from '../support/onnx/data.ts';
import { writeModel } from '../support/onnx/model.ts';
import { ROOT, runMillrace, startMillrace } from '../support/process.ts';

const COMMANDS = Object.keys(MODEL_COMMAND_FLAGS) as ModelCommandName[];
const CONFORMANCE = join('..', 'shared', 'conformance', 'models');
let folder = '';

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-model-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const model = (...args: string[]) => runMillrace(['model', ...args]);

describe('millrace model', () => {
  test('is named by the general help and lists its commands', async () => {
    const [general, help, nothing] = await Promise.all([runMillrace(['help']), model('--help'), model()]);
    expect(general.stdout).toMatch(/^ +model +\S/m);
    for (const command of COMMANDS) expect(help.stdout).toMatch(new RegExp(`^ +${command} +\\S`, 'm'));
    expect(help).toMatchObject({ code: 0, stderr: '' });
    expect(nothing).toMatchObject({ code: 2, stdout: help.stdout });
  });

  test.each(COMMANDS)('%s --help shows its options', async (command) => {
    const { code, stdout } = await model(command, '--help');
    expect(code).toBe(0);
    const shown = [...stdout.matchAll(/^ {2}--([a-z-]+)=/gm)].map(([, name]) => name);
    expect(shown).toEqual(MODEL_COMMAND_FLAGS[command].map((key) => MODEL_FLAGS[key].name));
    expect(stdout).not.toContain('MILLRACE_JSON');
  });

  test.each([
    { args: ['chek'], says: ['unknown command "model chek"', 'did you mean check?'] },
    { args: ['check'], says: ['--model-repository'] },
    {
      args: ['check', '--model-repository=x', '--no-rnu'],
      says: ['unknown option --no-rnu', 'did you mean --no-run?'],
    },
    { args: ['list', '--link'], says: ['unknown option --link', 'millrace model list --help'] },
    { args: ['explain', '--model-repository=x'], says: ['needs MODEL', 'usage: millrace model explain MODEL'] },
    { args: ['explain', 'a', 'b', '--model-repository=x'], says: ['unexpected argument "b"'] },
    { args: ['load'], says: ['needs MODEL'] },
    { args: ['list', 'x'], says: ['unexpected argument "x"'] },
    { args: ['list', '--timeout-secs=0'], says: ['--timeout-secs expects a whole number from 1'] },
  ])('$args is a mistake of the command line: one line and exit code 2', async ({ args, says }) => {
    const { code, stdout, stderr } = await model(...args);
    for (const text of says) expect(stderr).toContain(text);
    expect(stderr).toMatch(/^millrace: [^\n]+\n$/);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  });
});

describe('millrace model check', () => {
  test('has a tick for each model that a server would serve', async () => {
    const { code, stdout, stderr } = await model('check', '--model-repository=examples/models');
    expect(stdout).toBe(
      '✓ digits_mlp  version 1\n✓ efficientnet_lite0_int8  version 1\n✓ magika  version 1\n✓ minilm  version 1\n\n4 models, no problems\n',
    );
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  });

  test('goes on past broken models and shows place, shapes and repair', async () => {
    expect(existsSync(join(ROOT, CONFORMANCE)), 'the models of ../shared/conformance are missing').toBe(true);
    const { code, stdout } = await model('check', `--model-repository=${CONFORMANCE}`);
    expect(code).toBe(1);
    expect(stdout).toContain(
      `✗ broken_config\n    ${CONFORMANCE}/broken_config/config.pbtxt:4:1: unknown field "no_such_field" in ModelConfig`,
    );
    expect(stdout).toContain(`${CONFORMANCE}/broken_model/1/model.onnx: the model file could not be loaded: `);
    const shape = (line: string, tensor: string) =>
      [
        `    ${CONFORMANCE}/wrong_shape/config.pbtxt:${line}: ${tensor} has another shape in the model file`,
        '        config      dims [ 7 ] with max_batch_size 8',
        '        effective   [ -1, 7 ]',
        '        model file  [ -1, 4 ]',
        '        repair      set dims: [ 4 ]',
      ].join('\n');
    expect(stdout).toContain(
      `✗ wrong_shape  version 1\n${shape('4:47', 'input "INPUT"')}\n${shape('5:49', 'output "OUTPUT"')}\n`,
    );
    expect([...stdout.matchAll(/^✗/gm)]).toHaveLength(3);
    expect(stdout).toMatch(/^✓ simple {2}version 1$/m);
    expect(stdout).toMatch(/^✓ versions {2}versions 1, 2, 3$/m);
    expect(stdout).toMatch(/\d+ models, 3 with problems\n$/);
  });

  test('looks at the models that are named, and knows what is not there', async () => {
    const one = await model('check', 'minilm', '--model-repository=examples/models');
    expect(one.stdout).toBe('✓ minilm  version 1\n\n1 model, no problems\n');
    const none = await model('check', 'minilmm', '--model-repository=examples/models');
    expect(none).toMatchObject({ code: 1, stdout: '' });
    expect(none.stderr).toBe('millrace: no model "minilmm" in the repository; did you mean "minilm"?\n');
  });

  test('warns of a model that cannot batch, unless nothing is to be run', async () => {
    const repository = join(folder, 'unbatchable');
    writeUnbatchable(repository);
    const run = await model('check', `--model-repository=${repository}`);
    expect(run.code).toBe(0);
    expect(run.stdout).toMatch(/✓ centred {2}version 1\n {4}warning .*one row at a time.*depends on the other rows/);
    const compared = await model('check', '--no-run', `--model-repository=${repository}`);
    expect(compared).toMatchObject({ code: 0, stdout: expect.not.stringContaining('warning') as string });
  });

  test('reads the config that --model-config-name chooses', async () => {
    const repository = join(folder, 'named');
    makeFixtureModel(join(repository, 'mlp'), 'mlp');
    await mkdir(join(repository, 'mlp', 'configs'));
    await writeFile(join(repository, 'mlp', 'configs', 'gpu.pbtxt'), 'max_batch_sise: 8');
    const { stdout } = await model('check', '--model-config-name=gpu', `--model-repository=${repository}`);
    expect(stdout).toContain('mlp/configs/gpu.pbtxt:1:1: unknown field "max_batch_sise"');
    expect(stdout).toContain('repair      write "max_batch_size"');
  });

  test('warns of a folder that is a model and no repository', async () => {
    const { stdout } = await model('check', '--model-repository=examples/models/digits_mlp');
    expect(stdout).toMatch(
      /^warning repository looks like a model folder, its parent may be meant: examples\/models\/digits_mlp\n✗ 1\n/,
    );
  });

  test('--json has the same as data', async () => {
    const { code, stdout, stderr } = await model(
      'check',
      'simple',
      'wrong_shape',
      '--json',
      `--model-repository=${CONFORMANCE}`,
    );
    const file = `${CONFORMANCE}/wrong_shape/config.pbtxt`;
    expect({ code, stderr }).toEqual({ code: 1, stderr: '' });
    expect(JSON.parse(stdout)).toEqual({
      ok: false,
      warnings: [],
      models: [
        { model: 'simple', ok: true, versions: ['1'], problems: [], warnings: [] },
        {
          model: 'wrong_shape',
          ok: false,
          versions: ['1'],
          problems: [
            {
              message:
                'input "INPUT": dims [ 7 ] with max_batch_size 8 mean shape [ -1, 7 ], the model file has [ -1, 4 ]',
              file,
              line: 4,
              column: 47,
              tensor: { kind: 'input', name: 'INPUT', field: 'dims' },
              shapes: { config: [7], maxBatchSize: 8, effective: [-1, 7], model: [-1, 4] },
              fix: 'set dims: [ 4 ]',
            },
            expect.objectContaining({ file, line: 5, column: 49, fix: 'set dims: [ 4 ]' }),
          ],
          warnings: [],
        },
      ],
    });
  });

  test('a repository that cannot be read is an error of its own, in JSON too', async () => {
    const plain = await model('check', '--model-repository=nowhere');
    expect(plain).toMatchObject({ code: 1, stdout: '' });
    expect(plain.stderr).toContain("model repository 'nowhere' cannot be read: there is no such folder");
    const json = await model('check', '--json', '--model-repository=nowhere');
    expect(json).toMatchObject({ code: 1, stderr: '' });
    expect(JSON.parse(json.stdout)).toMatchObject({ ok: false, error: { code: 'NOT_FOUND' } });
  });
});

describe('what the documents show', () => {
  const shown = async (file: string) => {
    const text = await readFile(join(ROOT, file), 'utf8');
    return [...text.matchAll(/^```console\n\$ millrace (model .+)\n([^]*?)^```$/gm)].map(([, line, answer]) => ({
      line: line!,
      answer: answer!,
    }));
  };

  test.each(['README.md', 'docs/model-command.md'])('is what %s prints for the example models', async (file) => {
    const blocks = (await shown(file)).filter(({ line }) => line.endsWith('--model-repository=examples/models'));
    expect(blocks.length).toBeGreaterThan(0);
    for (const { line, answer } of blocks) {
      const { stdout } = await runMillrace(line.split(' '));
      expect(withoutFigures(stdout)).toBe(withoutFigures(answer));
    }
  });

  test('of broken models is what is printed', async () => {
    const { answer } = (await shown('docs/model-command.md')).find(({ line }) => line.startsWith('model check'))!;
    const models = join(folder, 'shown', 'models');
    const output = 'output { name: "y" data_type: TYPE_FP32 dims: [ 10 ] }\n';
    makeFixtureModel(join(models, 'good'), 'mlp');
    makeFixtureModel(
      join(models, 'shapes'),
      'mlp',
      `max_batch_size: 8\ninput [ { name: "x" data_type: TYPE_FP32 dims: [ 30 ] } ]\n${output}`,
    );
    makeFixtureModel(
      join(models, 'typos'),
      'mlp',
      `max_batch_sise: 8\ninput [ { name: "x" data_type: TYPE_FLOAT dims: [ 32 ] } ]\n${output}`,
    );
    const { stdout } = await runMillrace(['model', 'check', '--model-repository=models'], {
      cwd: join(folder, 'shown'),
    });
    expect(stdout).toBe(answer);
  });
});

/** What was measured is another number each time, and on a busy machine for fewer sizes. */
function withoutFigures(text: string): string {
  const time = '[\\d.]+ (?:ns|µs|ms|s)';
  const measured = new RegExp(`(by rows: )1: ${time}(?:, \\d+: ${time})*; a row takes .*$`, 'm');
  return text.replace(measured, '$1#');
}

describe('millrace model explain', () => {
  test('says what a model takes, how it batches and what was added', async () => {
    const { code, stdout } = await model('explain', 'digits_mlp', '--model-repository=examples/models');
    expect(code).toBe(0);
    expect(stdout).toContain('pixels         1 to 64 rows of 64 FP32 numbers  [-1,64]');
    expect(stdout).toContain('at most 2 ms from the arrival of the oldest request');
    expect(stdout).toContain('  2 runs at once on the CPU, 1 thread each');
    expect(stdout).toContain('1  (policy: the latest)');
    expect(stdout).toContain('  + default_model_filename: "model.onnx"');
    expect(stdout).toContain(
      '    dynamic_batching {\n  +   preferred_batch_size: [ 64 ]\n      max_queue_delay_microseconds: 2000\n    }',
    );
    expect(stdout).not.toContain('\u001b');
  });

  test('shows a model without a config as everything added', async () => {
    const { stdout } = await model('explain', 'autoconf', '--json', `--model-repository=${CONFORMANCE}`);
    const { diff, config, inputs } = JSON.parse(stdout) as {
      diff: { mark: string; text: string }[];
      config: string;
      inputs: unknown[];
    };
    expect(diff.every(({ mark }) => mark === 'added')).toBe(true);
    expect(diff.map(({ text }) => `${text}\n`).join('')).toBe(config);
    expect(inputs).toEqual([
      { name: 'INPUT', datatype: 'FP32', shape: [-1, 4], words: '1 to 4 rows of 4 FP32 numbers' },
    ]);
  });

  test('explains a model that cannot be served as far as it goes', async () => {
    const { code, stdout } = await model('explain', 'wrong_shape', `--model-repository=${CONFORMANCE}`);
    expect(code).toBe(1);
    expect(stdout).toContain('repair      set dims: [ 4 ]');
    expect(stdout).toContain('1 to 8 rows of 7 INT32 numbers');
  });
});

describe('millrace model init', () => {
  test('makes a folder of a Hugging Face export that check and serve take', async () => {
    const exported = join(folder, 'my export');
    await cp(join(ROOT, 'examples/models/minilm'), exported, { recursive: true });
    await mkdir(join(exported, 'onnx'));
    await cp(join(exported, '1', 'model.onnx'), join(exported, 'onnx', 'model.onnx'));
    await rm(join(exported, '1'), { recursive: true });
    const repository = join(folder, 'repository');
    const init = await model('init', exported, '--link', `--model-repository=${repository}`);
    expect(init.stderr).toBe('');
    expect(init.stdout).toContain(`wrote ${repository}/my_export\n  config.pbtxt\n  1/model.onnx  (hard link)\n`);
    expect(init.stdout).toContain('  1_Pooling/config.json\n');
    expect(init.stdout).toContain(`next: millrace model check my_export --model-repository=${repository}\n`);
    expect((await stat(join(repository, 'my_export/1/model.onnx'))).nlink).toBe(2);
    expect(await readFile(join(repository, 'my_export/config.pbtxt'), 'utf8')).toContain(
      'output {\n  name: "sentence_embedding"\n  data_type: TYPE_FP32\n  dims: [ 384 ]\n}\ndynamic_batching { }\n',
    );

    const check = await model('check', `--model-repository=${repository}`);
    expect(check.stdout).toBe('✓ my_export  version 1\n\n1 model, no problems\n');

    const again = await model('init', exported, `--model-repository=${repository}`);
    expect(again).toMatchObject({ code: 1, stdout: '' });
    expect(again.stderr).toContain(`${repository}/my_export is there already`);

    const serve = await startMillrace(['serve', `--model-repository=${repository}`, '--log-info=false']);
    const answer = await fetch(`${serve.url}/models/my_export`, { method: 'POST', body: '{"inputs":"a text"}' });
    expect(await answer.json()).toHaveLength(384);
    await serve.stop();
  });

  test('takes an ONNX file with its external data', async () => {
    const source = join(folder, 'plain', 'adder.onnx');
    writeModel(source, {
      inputs: [{ name: 'x', datatype: 'FP32', shape: [2] }],
      outputs: [{ name: 'y', datatype: 'FP32', shape: [2] }],
      nodes: [{ op: 'Add', inputs: ['x', 'w'], outputs: ['y'] }],
      initializers: [{ name: 'w', datatype: 'FP32', shape: [2], external: 'adder.onnx_data' }],
    });
    const missing = await model('init', source, `--model-repository=${folder}/adders`);
    expect(missing.code).toBe(1);
    expect(missing.stderr).toContain('adder.onnx_data, which is not there');
    expect(existsSync(join(folder, 'adders'))).toBe(false);
    await writeFile(join(folder, 'plain', 'adder.onnx_data'), f32(1, 2));
    const init = await model('init', source, '--json', `--model-repository=${folder}/adders`);
    expect(JSON.parse(init.stdout)).toMatchObject({
      ok: true,
      model: 'adder',
      files: ['config.pbtxt', '1/model.onnx', '1/adder.onnx_data'],
    });
    const config = await readFile(join(folder, 'adders/adder/config.pbtxt'), 'utf8');
    expect(config).toContain('max_batch_size is not set');
    expect(config).toContain('dims: [ 2 ]');
    expect(await model('check', `--model-repository=${folder}/adders`)).toMatchObject({ code: 0 });
  });

  test('leaves nothing behind of a file that is no model', async () => {
    await writeFile(join(folder, 'text.onnx'), 'this is no model');
    const { code, stderr } = await model('init', join(folder, 'text.onnx'), `--model-repository=${folder}/none`);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^millrace: [^\n]+\n$/);
    expect(existsSync(join(folder, 'none', 'text'))).toBe(false);
  });

  test.each([
    { source: 'nowhere', says: 'there is no such file or folder' },
    { source: 'README.md', says: 'expected an ONNX file (*.onnx) or the folder of an export' },
    { source: 'examples/photos', says: 'has no model.onnx and no onnx/model.onnx; it has no ONNX file' },
    { source: 'examples/models/digits_mlp/1', args: ['--name=../x'], says: '--name: expected letters' },
  ])('$source is refused', async ({ source, args = [], says }) => {
    const { code, stderr } = await model('init', source, ...args, `--model-repository=${folder}/refused`);
    expect(code).toBe(1);
    expect(stderr).toContain(says);
    expect(existsSync(join(folder, 'refused'))).toBe(false);
  });
});
