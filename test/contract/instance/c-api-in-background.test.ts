import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe } from 'vitest';
import { createCApiBackend } from '../../../worker/engine/backend/onnx/c-api/c-api-backend.ts';
import type { Backend, LoadedModel } from '../../../worker/engine/instance/instance.ts';
import { makeFixtureRepository } from '../../fixtures/make-models.ts';
import { loadOptions } from '../../support/load-options.ts';
import { describeInstances } from './instance.contract.ts';

describe('ONNX Runtime through its C API, in the background while another model serves', () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-neighbour-'));
  makeFixtureRepository(folder);
  let neighbour: Promise<LoadedModel> | undefined;
  afterAll(async () => {
    await (await neighbour)?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  /** None of its models is ever told to serve, so all they do is done in the background. */
  function besideANeighbour(): Backend {
    const backend = createCApiBackend();
    return {
      async load(options) {
        neighbour ??= backend.load(loadOptions(join(folder, 'rowsum', '1', 'model.onnx')));
        (await neighbour).startServing?.();
        return backend.load(options);
      },
    };
  }

  describeInstances(besideANeighbour, {
    stopsRuns: true,
    carriesBf16: true,
    carriesAnyBytes: true,
    takesOptionalInputs: true,
    knowsErrorCodes: true,
  });
});
