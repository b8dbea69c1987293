import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FIXTURE_MODELS, makeFixtureRepository } from '../fixtures/make-models.ts';
import { type MillraceProcess, ROOT, startMillrace } from '../support/process.ts';
import { pythonWithClients, run } from '../support/python.ts';
import { keysFileOf } from '../support/tenants.ts';

/** Refused at load, each for a good reason. */
const NOT_LOADABLE = new Set(['fixed1']);

describe('official Python clients work unchanged', () => {
  let folder = '';
  let python = '';
  let serve: MillraceProcess;

  beforeAll(async () => {
    python = await pythonWithClients();
    folder = await mkdtemp(join(tmpdir(), 'millrace-clients-'));
    makeFixtureRepository(
      folder,
      FIXTURE_MODELS.filter((name) => !NOT_LOADABLE.has(name)),
    );
    const repositories = ['examples/models', folder].map((path) => `--model-repository=${path}`);
    serve = await startMillrace(['serve', ...repositories, '--log-info=false']);
  });
  afterAll(async () => {
    await serve.stop();
    await rm(folder, { recursive: true, force: true });
  });

  test.each(['test_huggingface.py', 'test_openai.py', 'test_triton.py'])('%s', async (file) => {
    const args = ['-m', 'pytest', '-q', `test/clients/${file}`];
    const { code, text } = await run(python, args, { env: { MILLRACE_TEST_URL: serve.url } });
    expect(code, text).toBe(0);
  });

  test('test_triton_keys.py', async () => {
    const key = 'correct-horse-battery-staple';
    const file = join(folder, 'tenants.json');
    await writeFile(file, keysFileOf({ shop: { key, models: ['digits_mlp'] } }));
    const models = ['--model-repository=examples/models', '--model-control-mode=explicit', '--load-model=digits_mlp'];
    const server = await startMillrace(['serve', ...models, `--api-keys-file=${file}`]);
    const env = { MILLRACE_TEST_URL: server.url, MILLRACE_TEST_GRPC: server.grpcAddress, MILLRACE_TEST_KEY: key };
    const { code, text } = await run(python, ['-m', 'pytest', '-q', 'test/clients/test_triton_keys.py'], { env });
    expect(code, text).toBe(0);
    await server.stop();
  });

  test('the Python of the README runs as it stands', async () => {
    const readme = await readFile(join(ROOT, 'README.md'), 'utf8');
    const blocks = [...readme.matchAll(/```python\n([^]*?)```/g)].map(([, code]) => code!);
    expect(blocks.length).toBeGreaterThan(0);
    for (const block of blocks) {
      const code = block
        .replaceAll('127.0.0.1:8000', new URL(serve.url).host)
        .replaceAll('"cat.png"', '"examples/photos/chelsea.png"');
      const output = await run(python, ['-c', code]);
      expect(output.code, output.text).toBe(0);
    }
  });
});
