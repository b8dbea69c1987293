import { describe, expect, it } from 'vitest';
import type { Devices } from '../../../../shared/model/devices.ts';
import { gpuOptionsOf } from '../../../../shared/model/gpu-options.ts';
import { normaliseModelConfig } from '../../../../shared/model/normalise-config.ts';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';
import { validateBeforeLoad } from '../../../../shared/model/validate-config.ts';

const TWO: Devices = { gpus: [0, 1], installed: true, reason: '' };
const BROKEN: Devices = { gpus: [], installed: true, reason: 'driver present, no GPU visible' };

const normalise = (text: string, devices?: Devices) =>
  normaliseModelConfig(parseModelConfig(`name: "m" ${text}`, 'config.pbtxt'), devices);
const problems = (text: string, devices: Devices) => validateBeforeLoad(normalise(text, devices), devices);
const parameter = (key: string, value: string) => `parameters { key: "${key}" value { string_value: "${value}" } } `;
const accelerator = (text: string) =>
  `optimization { execution_accelerators { gpu_execution_accelerator { ${text} } } }`;

const tensorRt = (key: string, value: string) =>
  accelerator(`name: "tensorrt" parameters { key: "${key}" value: "${value}" }`);

describe('a config where GPUs work', () => {
  it.each([
    ['', { 0: 1, 1: 1 }],
    ['instance_group { }', { 0: 1, 1: 1 }],
    ['instance_group { kind: KIND_GPU gpus: [ 1 ] count: 3 }', { 1: 3 }],
    ['instance_group [ { kind: KIND_GPU gpus: [ 0 ] }, { count: 2 } ]', { 0: 3, 1: 2 }],
    ['instance_group { kind: KIND_CPU }', undefined],
  ])('opens sessions for %j', (text, instances) => {
    expect(gpuOptionsOf(normalise(text, TWO))?.instances).toEqual(instances);
    expect(problems(text, TWO)).toEqual([]);
  });

  it("takes Triton's numbers and ONNX Runtime's words", () => {
    const text =
      parameter('gpu_mem_limit', '1000000') +
      parameter('arena_extend_strategy', '1') +
      parameter('cudnn_conv_algo_search', '2') +
      parameter('do_copy_in_default_stream', '0') +
      accelerator('name: "cuda" parameters { key: "cudnn_conv_algo_search" value: "HEURISTIC" }');
    expect(problems(text, TWO)).toEqual([]);
    expect(gpuOptionsOf(normalise(text, TWO))?.provider).toEqual({
      gpu_mem_limit: '1000000',
      arena_extend_strategy: 'kSameAsRequested',
      cudnn_conv_algo_search: 'HEURISTIC',
      do_copy_in_default_stream: '0',
    });
  });

  it("takes Triton's parameters of TensorRT, beside those of CUDA", () => {
    const text = `optimization { execution_accelerators {
      gpu_execution_accelerator {
        name: "tensorrt"
        parameters { key: "precision_mode" value: "FP16" }
        parameters { key: "max_workspace_size_bytes" value: "1073741824" }
        parameters { key: "trt_engine_cache_enable" value: "true" }
        parameters { key: "trt_engine_cache_path" value: "/var/cache/trt" }
        parameters { key: "trt_profile_min_shapes" value: "x:1x3x224x224" }
      }
      gpu_execution_accelerator { name: "cuda" parameters { key: "use_tf32" value: "0" } }
    } }`;
    expect(problems(text, TWO)).toEqual([]);
    const options = gpuOptionsOf(normalise(text, TWO));
    expect(options?.provider).toEqual({ use_tf32: '0' });
    expect(options?.tensorRt).toEqual({
      trt_fp16_enable: '1',
      trt_max_workspace_size: '1073741824',
      trt_engine_cache_enable: '1',
      trt_engine_cache_path: '/var/cache/trt',
      trt_profile_min_shapes: 'x:1x3x224x224',
    });
    expect(gpuOptionsOf(normalise(accelerator('name: "tensorrt"'), TWO))?.tensorRt).toEqual({});
    expect(gpuOptionsOf(normalise('', TWO))?.tensorRt).toBeUndefined();
  });

  it.each([
    [parameter('gpu_mem_limit', '1e9'), 'parameter "gpu_mem_limit": expected a number of bytes from 1 up, got "1e9"'],
    [parameter('use_tf32', 'no'), 'parameter "use_tf32": expected one of "0", "1", "false", "true", got "no"'],
    [parameter('cudnn_conv_algo_search', '3'), 'expected one of "0", "1", "2", "EXHAUSTIVE", "HEURISTIC", "DEFAULT"'],
    [parameter('enable_cuda_graph', '1'), 'parameter "enable_cuda_graph" is not supported'],
    [parameter('gpu_only', 'yes'), 'parameter "gpu_only": expected one of'],
    [accelerator('name: "dnnl"'), 'gpu_execution_accelerator "dnnl" is not supported: set "cuda" or "tensorrt"'],
    [
      tensorRt('precision_mode', 'FP8'),
      'parameter "precision_mode": expected one of "FP32", "FP16", "INT8", got "FP8"',
    ],
    [tensorRt('max_workspace_size_bytes', '1G'), 'parameter "max_workspace_size_bytes": expected a number of bytes'],
    [tensorRt('trt_engine_cache_enabled', '1'), 'is not supported; did you mean "trt_engine_cache_enable"?'],
    [tensorRt('trt_engine_cache_enable', '1'), '"trt_engine_cache_enable" needs "trt_engine_cache_path"'],
    [tensorRt('trt_engine_cache_path', 'cache'), 'expected an absolute path without "..", got "cache"'],
    [tensorRt('trt_engine_cache_path', '/a/../b'), 'expected an absolute path without ".."'],
    [tensorRt('trt_profile_max_shapes', 'x'), 'expected shapes as "x:1x3x224x224,y:1x4", got "x"'],
    [tensorRt('trt_extra_plugin_lib_paths', '/lib/x.so'), 'parameter "trt_extra_plugin_lib_paths" is not supported'],
    [accelerator('name: "cuda" parameters { key: "use_tf23" value: "1" }'), 'did you mean "use_tf32"?'],
    ['instance_group { kind: KIND_GPU gpus: [ 0, 4 ] }', 'GPU 4 does not exist or not work; working is 0, 1'],
    ['instance_group { kind: KIND_GPU gpus: [ 0, 0 ] }', 'a GPU is listed twice'],
    [`instance_group { kind: KIND_CPU } ${parameter('gpu_only', '1')}`, 'no instance_group is on one'],
  ])('refuses %j', (text, expected) => {
    expect(problems(text, TWO)).toEqual([expect.stringContaining(expected)]);
  });
});

describe('a config where no GPU works', () => {
  it('has KIND_AUTO on the CPU, and KIND_GPU refused with the reason', () => {
    expect(gpuOptionsOf(normalise('', BROKEN))).toBeUndefined();
    expect(problems('', BROKEN)).toEqual([]);
    expect(problems('instance_group { kind: KIND_GPU }', BROKEN)).toEqual([
      expect.stringContaining('kind: KIND_GPU is not supported: driver present, no GPU visible; set kind: KIND_CPU'),
    ]);
  });

  it('does not run a model on the CPU that wants a GPU only', () => {
    expect(problems(parameter('gpu_only', '1'), BROKEN)).toEqual([
      'parameter "gpu_only" wants the model on a GPU: driver present, no GPU visible',
    ]);
  });
});
