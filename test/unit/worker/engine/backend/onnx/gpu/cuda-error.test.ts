import { describe, expect, it } from 'vitest';
import { InferError } from '../../../../../../../shared/errors.ts';
import { cudaProblemText, explainCudaError } from '../../../../../../../worker/engine/backend/onnx/gpu/cuda-error.ts';
import { hasCodeFor } from '../../../../../../../worker/engine/backend/onnx/gpu/cuda-libraries.ts';
import { gpuLoadError, gpuRunError } from '../../../../../../../worker/engine/backend/onnx/gpu/gpu-error.ts';

const failure = (code: number, text: string) =>
  `CUDA failure ${code}: ${text} ; GPU=-1 ; hostname=h ; file=/a/b.cc ; line=1 ; expr=cudaSetDevice(info_.device_id);`;

describe('explainCudaError', () => {
  it.each([
    [
      'libonnxruntime_providers_shared.so: cannot open shared object file',
      'provider',
      'CUDA provider not installed: run millrace gpu install',
    ],
    [
      'with error: /a/libonnxruntime_providers_cuda.so: cannot open shared object file',
      'provider',
      'CUDA provider not installed',
    ],
    [
      'OrtSessionOptionsAppendExecutionProvider_Cuda: Failed to load shared library',
      'provider',
      'CUDA provider not installed',
    ],
    [
      'with error: libcublasLt.so.13: cannot open shared object file: No such',
      'library',
      'libcublasLt.so.13 not found: package nvidia-cublas',
    ],
    ['libcurand.so.10: cannot open shared object file', 'library', 'package nvidia-curand'],
    [
      'libcuda.so.1: cannot open shared object file',
      'driver',
      'no NVIDIA driver visible (libcuda.so.1 not found): install the driver; in a container: start it with --gpus all',
    ],
    [
      'undefined symbol: cudaEventRecordWithFlags, version libcudart.so.13',
      'library',
      'libcudart is older than the provider',
    ],
    ['/x/libcublas.so.13: file too short', 'library', 'libcublas.so.13 is damaged or cut short'],
    [failure(100, 'no CUDA-capable device is detected'), 'device', 'driver present, no GPU visible'],
    [
      failure(35, 'CUDA driver version is insufficient for CUDA runtime version'),
      'driver',
      'driver too old for CUDA 13: update the driver to 580 or later',
    ],
    [failure(101, 'invalid device ordinal'), 'device', 'GPU 3 does not exist'],
    [failure(209, 'no kernel image is available'), 'device', 'the provider has no code for GPU 3'],
    [failure(2, 'out of memory'), 'memory', 'GPU memory exhausted'],
    [
      failure(803, 'system has unsupported display driver / cuda driver combination'),
      'device',
      'CUDA failure 803: system has unsupported display driver / cuda driver combination',
    ],
    [failure(999, 'unknown error'), 'device', 'CUDA failure 999: unknown error'],
    [
      'while running Conv node. cuDNN is unavailable or disabled for CUDA Execution Provider: dlopen failed',
      'cudnn',
      'libcudnn.so.9 not found: package nvidia-cudnn-cu13',
    ],
    [
      'CUDNN failure 1001: CUDNN_STATUS_NOT_INITIALIZED ; GPU=0',
      'cudnn',
      'cuDNN failed with 1001, CUDNN_STATUS_NOT_INITIALIZED',
    ],
    [
      'bfc_arena.cc:360 Failed to allocate memory for requested buffer of size 1048576',
      'memory',
      'GPU memory exhausted',
    ],
    ['Available memory of 9332224 is smaller than requested bytes of 16000000', 'memory', 'GPU memory exhausted'],
    [
      'fallback to CPU EP has been explicitly disabled by the user.',
      'fallback',
      'model has operators without a CUDA kernel',
    ],
  ])('puts %j at the stage %s', (text, stage, words) => {
    const problem = explainCudaError(text, 3);
    expect(problem?.stage).toBe(stage);
    expect(problem && cudaProblemText(problem)).toContain(words);
  });

  it('leaves other errors to others', () => {
    expect(explainCudaError('Protobuf parsing failed.')).toBeUndefined();
  });

  it('never suggests a package for the driver', () => {
    expect(explainCudaError('libcuda.so.1: cannot open shared object file')?.repair).not.toMatch(
      /package|install -|pip/,
    );
  });
});

describe('errors of sessions on a GPU', () => {
  const load = (text: string) => gpuLoadError({ code: undefined, text }, '/m/model.onnx', 1);

  it('gives memory, devices and models codes of their own', () => {
    expect(load(failure(2, 'out of memory'))).toMatchObject({ code: 'RESOURCE_EXHAUSTED' });
    expect(load(failure(100, 'x'))).toMatchObject({ code: 'UNAVAILABLE' });
    expect(load('has been explicitly disabled by the user')).toMatchObject({ code: 'INVALID_ARGUMENT' });
    expect(load('Protobuf parsing failed.').message).toBe(
      'the model file could not be loaded: Protobuf parsing failed.',
    );
  });

  it('lets a run that found no memory be tried in halves', () => {
    const error = new InferError('INTERNAL', `the model could not run: ${failure(2, 'out of memory')}`);
    expect(gpuRunError(error, 0)).toMatchObject({ code: 'RESOURCE_EXHAUSTED' });
    const other = new InferError('INVALID_ARGUMENT', 'the model could not run: Got invalid dimensions');
    expect(gpuRunError(other, 0)).toBe(other);
  });
});

describe('hasCodeFor', () => {
  it.each([
    [7, 5, true],
    [8, 0, true],
    [8, 9, true],
    [9, 0, true],
    [12, 0, true],
    [6, 1, false],
    [7, 0, false],
    [10, 0, false],
    [12, 1, false],
  ])('architecture %i.%i: %s', (major, minor, known) => {
    expect(hasCodeFor(major, minor)).toBe(known);
  });
});
