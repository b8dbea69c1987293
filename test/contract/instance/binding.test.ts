import { describe } from 'vitest';
import { createBindingBackend } from '../../../worker/engine/backend/onnx/binding/binding-backend.ts';
import { describeInstances } from './instance.contract.ts';

describe("ONNX Runtime through onnxruntime-node's binding", () => {
  describeInstances(createBindingBackend, {
    // The package ignores `terminate`.
    stopsRuns: false,
    // The package throws for the type.
    carriesBf16: false,
    // The package takes texts as JavaScript strings.
    carriesAnyBytes: false,
    // The package neither lists nor passes on inputs that have a default.
    takesOptionalInputs: false,
    // The package throws errors with a text and nothing else.
    knowsErrorCodes: false,
  });
});
