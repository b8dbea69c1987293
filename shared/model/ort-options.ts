import type { ModelConfig } from '../proto/generated/model_config_pb.ts';
import { findSessionEntryProblems, sessionEntriesOf } from './session-entries.ts';

/** Session options by ONNX Runtime's names, as the engine's loader takes them beside the path. */
export interface SessionOptions {
  readonly intraOpNumThreads: number;
  readonly interOpNumThreads: number;
  readonly executionMode: 'sequential' | 'parallel';
  readonly graphOptimizationLevel: 'disabled' | 'basic' | 'extended' | 'all';
  readonly enableCpuMemArena: boolean;
  readonly enableMemPattern: boolean;
  /** Exact int8 products on x64 processors without VNNI; see docs/decisions.md. */
  readonly exactInt8: boolean;
  /** Entries of the session's configuration, by ONNX Runtime's own names. */
  readonly sessionEntries: Readonly<Record<string, string>>;
  /** Memory arenas that shrink after every run; '' for none. */
  readonly arenaShrinkage: string;
}

/** Triton's numbers, which do not rise with what they mean. */
const GRAPH_LEVELS: ReadonlyMap<number, SessionOptions['graphOptimizationLevel']> = new Map([
  [0, 'all'],
  [-1, 'basic'],
  [1, 'extended'],
  [2, 'disabled'],
]);

const EXECUTION_MODES: ReadonlyMap<string, SessionOptions['executionMode']> = new Map([
  ['0', 'sequential'],
  ['1', 'parallel'],
]);

const SWITCHES: ReadonlyMap<string, boolean> = new Map([
  ['0', false],
  ['1', true],
  ['false', false],
  ['true', true],
]);

const ARENA_SHRINKAGE = 'memory.enable_memory_arena_shrinkage';

/** The session options of a config that `validateOrtOptions` found no problem in. */
export function sessionOptionsOf(config: ModelConfig): SessionOptions {
  const executionMode = EXECUTION_MODES.get(valueOf(config, 'execution_mode') ?? '0') ?? 'sequential';
  return {
    // One thread, the caller's own, instead of ONNX Runtime's "all cores": several instances share the machine.
    intraOpNumThreads: threadsOf(config, 'intra_op_thread_count') ?? 1,
    // 0 lets ONNX Runtime choose; in sequential mode the pool is never used, so none is made.
    interOpNumThreads: threadsOf(config, 'inter_op_thread_count') ?? (executionMode === 'parallel' ? 0 : 1),
    executionMode,
    graphOptimizationLevel: GRAPH_LEVELS.get(config.optimization?.graph?.level ?? 0) ?? 'all',
    enableCpuMemArena: SWITCHES.get(valueOf(config, 'enable_mem_arena') ?? '1') ?? true,
    enableMemPattern: SWITCHES.get(valueOf(config, 'enable_mem_pattern') ?? '1') ?? true,
    exactInt8: SWITCHES.get(valueOf(config, 'session.x64quantprecision') ?? '1') ?? true,
    sessionEntries: sessionEntriesOf(config),
    arenaShrinkage: valueOf(config, ARENA_SHRINKAGE) ?? '',
  };
}

/** Problems in the parameters and the graph level that ONNX Runtime's backend reads. Other keys are the model's own. */
export function validateOrtOptions(config: ModelConfig): string[] {
  const problems: string[] = [];
  for (const key of ['intra_op_thread_count', 'inter_op_thread_count']) {
    const value = valueOf(config, key);
    if (value !== undefined && !isThreadCount(value)) {
      problems.push(`parameter "${key}": expected a number of threads up to ${MAX_THREADS}, got "${value}"`);
    }
  }
  checkOneOf(problems, config, 'execution_mode', EXECUTION_MODES);
  checkOneOf(problems, config, 'enable_mem_arena', SWITCHES);
  checkOneOf(problems, config, 'enable_mem_pattern', SWITCHES);
  checkOneOf(problems, config, 'session.x64quantprecision', SWITCHES);
  // The C API shares one session among all instances anyway, the binding cannot.
  checkOneOf(problems, config, 'share_session_between_instances', SWITCHES);
  problems.push(...findSessionEntryProblems(config), ...arenaProblems(config));
  const level = config.optimization?.graph?.level ?? 0;
  if (!GRAPH_LEVELS.has(level)) {
    const expected = '0 (all), -1 (basic), 1 (extended) or 2 (none)';
    problems.push(`optimization.graph.level: expected ${expected}, got ${level}`);
  }
  return problems;
}

function arenaProblems(config: ModelConfig): string[] {
  const value = valueOf(config, ARENA_SHRINKAGE) ?? '';
  if (value === '') return [];
  if (value !== 'cpu:0') return [`parameter "${ARENA_SHRINKAGE}": expected "cpu:0", got "${value}"`];
  const arena = SWITCHES.get(valueOf(config, 'enable_mem_arena') ?? '1') ?? true;
  return arena ? [] : [`parameter "${ARENA_SHRINKAGE}" needs an arena, and enable_mem_arena switches it off`];
}

const MAX_THREADS = 1024;

function isThreadCount(value: string): boolean {
  return /^[+-]?\d{1,9}$/.test(value.trim()) && Number(value) <= MAX_THREADS;
}

/** As in Triton, 0 and less mean that nothing was set. */
function threadsOf(config: ModelConfig, key: string): number | undefined {
  const count = Number(valueOf(config, key) ?? 0);
  return count > 0 ? count : undefined;
}

function checkOneOf(problems: string[], config: ModelConfig, key: string, values: ReadonlyMap<string, unknown>): void {
  const value = valueOf(config, key);
  if (value === undefined || values.has(value)) return;
  const expected = [...values.keys()].map((known) => `"${known}"`).join(', ');
  problems.push(`parameter "${key}": expected one of ${expected}, got "${value}"`);
}

function valueOf(config: ModelConfig, key: string): string | undefined {
  return Object.hasOwn(config.parameters, key) ? config.parameters[key]?.stringValue : undefined;
}
