import { describe, expect, test } from 'vitest';
import { loadError, runError } from '../../../../../../worker/engine/backend/onnx/ort-error.ts';

describe('loadError', () => {
  const path = '/srv/models/cats/1/model.onnx';

  test.each([
    ['Load model from /srv/models/cats/1/model.onnx failed:Protobuf parsing failed.', 'Protobuf parsing failed.'],
    [
      "Load model /srv/models/cats/1/model.onnx failed. File doesn't exist",
      "Load model model.onnx failed. File doesn't exist",
    ],
    [
      'External data path: "../w" resolved path: "/srv/models/cats/w" allowed directory: "/srv/models/cats/1"',
      'External data path: "../w"',
    ],
    [
      'Load model from /srv/models/cats/1/model.onnx failed:/onnxruntime_src/onnxruntime/core/graph/graph.cc:1389 ' +
        'onnxruntime::Graph::Graph(const onnxruntime::Model&, const std::map<int, int>&) ok(tensor) was false. Bad.',
      'ok(tensor) was false. Bad.',
    ],
    ['tensorprotoutils.cc:434 Check Absolute path not allowed', 'Check Absolute path not allowed'],
  ])('%s becomes a text without paths', (text, expected) => {
    const error = loadError({ code: 1, text }, path);
    expect(error.code).toBe('INVALID_ARGUMENT');
    expect(error.message).toBe(`the model file could not be loaded: ${expected}`);
  });

  test('names of nodes that look like paths stay', () => {
    const text = "No Op registered for Foo, node name: '/encoder/layer.0/Foo'";
    expect(loadError({ code: 1, text }, path).message).toContain("'/encoder/layer.0/Foo'");
  });

  test('too little memory is not the fault of the file', () => {
    expect(loadError({ code: 6, text: 'std::bad_alloc' }, path).code).toBe('RESOURCE_EXHAUSTED');
  });
});

describe('runError', () => {
  test.each([
    [2, 'indices element out of data bounds', 'INVALID_ARGUMENT'],
    [undefined, 'Got invalid dimensions for input: x', 'INVALID_ARGUMENT'],
    [undefined, 'Invalid rank for input: x', 'INVALID_ARGUMENT'],
    [6, 'Failed to allocate memory for requested buffer of size 1', 'RESOURCE_EXHAUSTED'],
    [1, 'something else', 'INTERNAL'],
  ])('code %s with "%s" is %s', (code, text, expected) => {
    expect(runError({ code, text }, false).code).toBe(expected);
  });

  test('only a run that was asked to stop is cancelled', () => {
    const failure = { code: 1, text: 'Exiting due to terminate flag being set to true.' };
    expect(runError(failure, true)).toMatchObject({ code: 'CANCELLED', message: 'the run was stopped' });
    expect(runError(failure, false).code).toBe('INTERNAL');
    expect(runError({ code: 1, text: 'something else' }, true).code).toBe('INTERNAL');
  });

  test('the text is one line of bounded length', () => {
    const { message } = runError({ code: 1, text: `a\n  b\n${'x'.repeat(5000)}` }, false);
    expect(message).toMatch(/^the model could not run: a b x+$/);
    expect(message.length).toBeLessThan(1100);
  });
});
