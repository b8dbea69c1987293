import { nearestName } from '../nearest-name.ts';
import type { ModelConfig } from '../proto/generated/model_config_pb.ts';

/**
 * Entries of ONNX Runtime's session configuration that a config may set through `parameters`. ONNX Runtime takes any key
 * and says nothing to one that it does not know, so the list is closed. Left out are those that name files, as a config
 * must not lead out of its model's folder, and those that mean nothing on a CPU.
 */
const KEYS: readonly string[] = [
  'session.allow_released_opsets_only',
  'session.disable_aot_function_inlining',
  'session.disable_double_qdq_remover',
  'session.disable_prepacking',
  'session.disable_qdq_constant_folding',
  'session.disable_quant_qdq',
  'session.dynamic_block_base',
  'session.enable_dq_matmulnbits_fusion',
  'session.enable_quant_qdq_cleanup',
  'session.force_spinning_stop',
  'session.graph_optimizations_loop_level',
  'session.inter_op.allow_spinning',
  'session.intra_op.allow_spinning',
  'session.intra_op_thread_affinities',
  'session.load_model_format',
  'session.qdq_matmulnbits_accuracy_level',
  'session.qdq_matmulnbits_block_size',
  'session.qdqisint8allowed',
  'session.set_denormal_as_zero',
  'session.strict_shape_type_inference',
  'session.use_device_allocator_for_initializers',
  'optimization.disable_specified_optimizers',
  'optimization.enable_cast_chain_elimination',
  'optimization.enable_gelu_approximation',
];

/** Understood elsewhere. */
const OTHER_KEYS: readonly string[] = ['session.x64quantprecision', 'memory.enable_memory_arena_shrinkage'];

/** Names of this form are ONNX Runtime's; all others are the model's own. */
const OF_ONNX_RUNTIME = /^(?:session|optimization|memory|ep)\./;

/** ONNX Runtime's own bound. */
const MAX_VALUE_LENGTH = 1024;

/** The entries that a config without problems sets. */
export function sessionEntriesOf({ parameters }: ModelConfig): Readonly<Record<string, string>> {
  const entries = Object.entries(parameters).filter(([key]) => KEYS.includes(key));
  return Object.fromEntries(entries.map(([key, { stringValue }]) => [key, stringValue]));
}

export function findSessionEntryProblems({ parameters }: ModelConfig): string[] {
  const problems: string[] = [];
  for (const [key, { stringValue }] of Object.entries(parameters)) {
    if (!OF_ONNX_RUNTIME.test(key) || OTHER_KEYS.includes(key)) continue;
    if (!KEYS.includes(key)) problems.push(`parameter "${key}" is not supported${hint(key)}`);
    else if (stringValue === '' || stringValue.length > MAX_VALUE_LENGTH) {
      const expected = `expected a text of 1 to ${MAX_VALUE_LENGTH} characters`;
      problems.push(`parameter "${key}": ${expected}, got ${stringValue.length}`);
    }
  }
  return problems;
}

function hint(key: string): string {
  const nearest = nearestName(key, [...KEYS, ...OTHER_KEYS]);
  return nearest === undefined ? '' : `; did you mean "${nearest}"?`;
}
