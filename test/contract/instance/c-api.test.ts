import { describe } from 'vitest';
import { createCApiBackend } from '../../../worker/engine/backend/onnx/c-api/c-api-backend.ts';
import { describeInstances } from './instance.contract.ts';

describe('ONNX Runtime through its C API', () => {
  describeInstances(createCApiBackend, {
    stopsRuns: true,
    carriesBf16: true,
    carriesAnyBytes: true,
    takesOptionalInputs: true,
    knowsErrorCodes: true,
  });
});
