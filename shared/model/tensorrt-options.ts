import { nearestName } from '../nearest-name.ts';

/** How the value of an option is written: a pattern, and what to say of one that does not fit. */
interface Form {
  readonly pattern: RegExp;
  readonly expected: string;
}

const SWITCH: Form = { pattern: /^(?:0|1|false|true)$/i, expected: 'one of "0", "1", "false", "true"' };
const BYTES: Form = { pattern: /^[1-9]\d{0,17}$/, expected: 'a number of bytes from 1 up' };
const LEVEL: Form = { pattern: /^[0-5]$/, expected: 'a level from 0 to 5' };
const COUNT: Form = { pattern: /^(?:-1|\d{1,3})$/, expected: 'a small number, or -1' };
const NAME: Form = { pattern: /^[\w.-]{1,128}$/, expected: 'a plain name' };
/** The working directory, ONNX Runtime's default, is nobody's choice. */
const PATH: Form = { pattern: /^\/(?!.*(?:^|\/)\.\.(?:\/|$))/, expected: 'an absolute path without ".."' };
const SHAPES: Form = {
  pattern: /^[^:,]+:\d+(?:x\d+)*(?:,[^:,]+:\d+(?:x\d+)*)*$/,
  expected: 'shapes as "x:1x3x224x224,y:1x4"',
};

/** By the name in a config, Triton's: that of ONNX Runtime, and the form. `precision_mode` stands beside. */
const OPTIONS: ReadonlyMap<string, readonly [name: string, form: Form]> = new Map([
  ['max_workspace_size_bytes', ['trt_max_workspace_size', BYTES]],
  ['int8_calibration_table_name', ['trt_int8_calibration_table_name', NAME]],
  ['int8_use_native_calibration_table', ['trt_int8_use_native_calibration_table', SWITCH]],
  ['trt_engine_cache_enable', ['trt_engine_cache_enable', SWITCH]],
  ['trt_engine_cache_path', ['trt_engine_cache_path', PATH]],
  ['trt_engine_cache_prefix', ['trt_engine_cache_prefix', NAME]],
  ['trt_timing_cache_enable', ['trt_timing_cache_enable', SWITCH]],
  ['trt_timing_cache_path', ['trt_timing_cache_path', PATH]],
  ['trt_force_sequential_engine_build', ['trt_force_sequential_engine_build', SWITCH]],
  ['trt_context_memory_sharing_enable', ['trt_context_memory_sharing_enable', SWITCH]],
  ['trt_layer_norm_fp32_fallback', ['trt_layer_norm_fp32_fallback', SWITCH]],
  ['trt_build_heuristics_enable', ['trt_build_heuristics_enable', SWITCH]],
  ['trt_sparsity_enable', ['trt_sparsity_enable', SWITCH]],
  ['trt_builder_optimization_level', ['trt_builder_optimization_level', LEVEL]],
  ['trt_auxiliary_streams', ['trt_auxiliary_streams', COUNT]],
  ['trt_profile_min_shapes', ['trt_profile_min_shapes', SHAPES]],
  ['trt_profile_opt_shapes', ['trt_profile_opt_shapes', SHAPES]],
  ['trt_profile_max_shapes', ['trt_profile_max_shapes', SHAPES]],
]);

const PRECISION = 'precision_mode';

/** What each of them switches on. */
const PRECISIONS: ReadonlyMap<string, Readonly<Record<string, string>>> = new Map([
  ['FP32', {}],
  ['FP16', { trt_fp16_enable: '1' }],
  ['INT8', { trt_int8_enable: '1' }],
]);

/** A cache without a place of its own would lie in the working directory. */
const CACHES = [
  ['trt_engine_cache_enable', 'trt_engine_cache_path'],
  ['trt_timing_cache_enable', 'trt_timing_cache_path'],
] as const;

type Parameters = Readonly<Record<string, string>>;

/** Options of the TensorRT provider by ONNX Runtime's names, from parameters without problems. */
export function tensorRtOptionsOf(parameters: Parameters): Record<string, string> {
  const options: Record<string, string> = { ...PRECISIONS.get(parameters[PRECISION] ?? '') };
  for (const [key, value] of Object.entries(parameters)) {
    const option = OPTIONS.get(key);
    if (option) options[option[0]] = option[1] === SWITCH ? switchOf(value) : value;
  }
  return options;
}

/** What is wrong with the parameters of `name: "tensorrt"`, one text each. */
export function findTensorRtProblems(where: string, parameters: Parameters): string[] {
  const problems: string[] = [];
  for (const [key, value] of Object.entries(parameters)) {
    const at = `${where}: parameter "${key}"`;
    if (key === PRECISION) {
      if (!PRECISIONS.has(value)) problems.push(`${at}: expected one of "FP32", "FP16", "INT8", got "${value}"`);
      continue;
    }
    const option = OPTIONS.get(key);
    if (!option) problems.push(`${at} is not supported${hint(key)}`);
    else if (!option[1].pattern.test(value)) problems.push(`${at}: expected ${option[1].expected}, got "${value}"`);
  }
  for (const [enable, path] of CACHES) {
    const on = switchOf(parameters[enable] ?? '0') === '1';
    if (on && parameters[path] === undefined) problems.push(`${where}: "${enable}" needs "${path}"`);
  }
  return problems;
}

function switchOf(value: string): string {
  return /^(?:1|true)$/i.test(value) ? '1' : '0';
}

function hint(key: string): string {
  const nearest = nearestName(key, [PRECISION, ...OPTIONS.keys()]);
  return nearest === undefined ? '' : `; did you mean "${nearest}"?`;
}
