import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type MillraceProcess, ROOT, startMillrace } from '../support/process.ts';
import { pythonWithClients, run } from '../support/python.ts';

const CHECKS = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_schema_conformance',
  // What the schemas refuse, the server refuses.
  'negative_data_rejection',
];

const LEFT_OUT = [
  // Other paths to the same handlers, left out for time.
  '/versions/',
  '/repository/[{]repository[}]/',
  // A stream that ends with its job, which may have been submitted for next week.
  '/events',
].join('|');

let folder = '';
let python = '';
let serve: MillraceProcess;

beforeAll(async () => {
  python = await pythonWithClients();
  folder = await mkdtemp(join(tmpdir(), 'millrace-openapi-'));
  serve = await startMillrace(['serve', '--model-repository=examples/models', '--log-info=false']);
});
afterAll(async () => {
  await serve.stop();
  await rm(folder, { recursive: true, force: true });
});

test('the document is valid OpenAPI by its official schema', async () => {
  const file = join(folder, 'openapi.json');
  await writeFile(file, await (await fetch(`${serve.url}/openapi.json`)).text());
  const { code, text } = await run(python, ['-m', 'openapi_spec_validator', file]);
  expect([code, text]).toEqual([0, expect.stringContaining('OK')]);
});

test('schemathesis finds no answer that the document does not describe', async () => {
  const args = [
    `--config-file=${join(ROOT, 'test', 'clients', 'schemathesis.toml')}`,
    'run',
    `${serve.url}/openapi.json`,
    `--checks=${CHECKS.join(',')}`,
    '--phases=examples,coverage,fuzzing',
    `--exclude-path-regex=${LEFT_OUT}`,
    '--max-examples=15',
    '--max-failures=5',
    '--request-timeout=60',
    '--workers=1',
    '--seed=1',
    '--no-color',
    '--warnings=off',
  ];
  const { code, text } = await run(join(dirname(python), 'schemathesis'), args, { timeoutMs: 400_000, cwd: folder });
  expect(code, text.slice(-20_000)).toBe(0);
  // It is there all the same.
  expect((await fetch(`${serve.url}/v2/health/ready`)).status).toBe(200);
}, 420_000);
