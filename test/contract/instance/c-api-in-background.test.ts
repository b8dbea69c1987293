import { describe } from 'vitest';
import { createCApiBackend } from '../../../worker/engine/backend/onnx/c-api/c-api-backend.ts';
import type { Backend } from '../../../worker/engine/instance/instance.ts';
import { describeInstances } from './instance.contract.ts';

/** None of its models is ever told to serve, so all they do is done in the background. */
function inBackground(): Backend {
  const backend = createCApiBackend();
  return { load: (options) => backend.load(options, true) };
}

describe('ONNX Runtime through its C API, in the background', () => {
  describeInstances(inBackground, {
    stopsRuns: true,
    carriesBf16: true,
    carriesAnyBytes: true,
    takesOptionalInputs: true,
    knowsErrorCodes: true,
  });
});
