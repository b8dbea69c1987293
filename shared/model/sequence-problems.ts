import {
  type ModelConfig,
  type ModelSequenceBatching,
  type ModelSequenceBatching_Control,
  ModelSequenceBatching_Control_Kind as Kind,
  type ModelSequenceBatching_State,
} from '../proto/generated/model_config_pb.ts';
import { type Datatype, datatypeOfConfig } from '../tensor/datatype.ts';
import { formatDims, problemOfDims } from './dims.ts';

const KIND_NAMES: ReadonlyMap<number, string> = new Map(Object.entries(Kind).map(([name, kind]) => [kind, name]));

const ID_TYPES: readonly (Datatype | undefined)[] = ['UINT64', 'INT64', 'UINT32', 'INT32', 'BYTES'];

/** What is wrong with the sequence_batching of a normalised config, one text each. File names are checked elsewhere. */
export function findSequenceProblems(config: ModelConfig, batching: ModelSequenceBatching): string[] {
  const problems: string[] = [];
  if (config.responseCache?.enable) problems.push('response_cache does not go with sequence_batching');
  checkStrategy(problems, batching, config.maxBatchSize);
  checkControls(problems, batching);
  batching.state.forEach((state, index) => checkState(problems, state, `sequence_batching.state[${index}]`));
  checkNames(problems, config, batching);
  return problems;
}

function checkStrategy(problems: string[], { strategyChoice }: ModelSequenceBatching, maxBatchSize: number): void {
  if (strategyChoice.case === 'direct') {
    const { minimumSlotUtilization: utilization } = strategyChoice.value;
    if (utilization >= 0 && utilization <= 1) return;
    const where = 'sequence_batching.direct.minimum_slot_utilization';
    problems.push(`${where}: expected a number from 0 to 1, got ${utilization}`);
  } else if (strategyChoice.case === 'oldest') {
    const { preferredBatchSize, maxCandidateSequences } = strategyChoice.value;
    for (const size of preferredBatchSize) {
      if (size >= 1 && size <= maxBatchSize) continue;
      const expected = `sizes from 1 to max_batch_size (${maxBatchSize})`;
      problems.push(`sequence_batching.oldest.preferred_batch_size: expected ${expected}, got ${size}`);
    }
    if (maxCandidateSequences >= 0) return;
    const where = 'sequence_batching.oldest.max_candidate_sequences';
    problems.push(`${where}: expected 0 or more, got ${maxCandidateSequences}`);
  }
}

function checkControls(problems: string[], batching: ModelSequenceBatching): void {
  const kinds = new Set<Kind>();
  for (const [index, { name, control }] of batching.controlInput.entries()) {
    const where = `sequence_batching.control_input[${index}]`;
    if (name === '') problems.push(`${where}: name is missing`);
    const [first] = control;
    if (!first || control.length > 1) {
      problems.push(`${where}: expected one control for each tensor, got ${control.length}`);
      continue;
    }
    const kind = KIND_NAMES.get(first.kind) ?? 'the control';
    if (kinds.has(first.kind)) problems.push(`${where}: ${kind} is there twice`);
    kinds.add(first.kind);
    const problem = first.kind === Kind.CONTROL_SEQUENCE_CORRID ? problemOfId(first) : problemOfSwitch(first);
    if (problem !== undefined) problems.push(`${where}: ${kind} ${problem}`);
  }
}

function problemOfId(control: ModelSequenceBatching_Control): string | undefined {
  const lists = [control.int32FalseTrue, control.fp32FalseTrue, control.boolFalseTrue];
  if (lists.some((list) => list.length > 0)) return 'is the correlation id, which has no values for false and true';
  if (ID_TYPES.includes(datatypeOfConfig(control.dataType))) return undefined;
  return 'needs a data_type: TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 or TYPE_STRING';
}

function problemOfSwitch({
  int32FalseTrue,
  fp32FalseTrue,
  boolFalseTrue,
}: ModelSequenceBatching_Control): string | undefined {
  const [list, ...others] = [int32FalseTrue, fp32FalseTrue, boolFalseTrue].filter((values) => values.length > 0);
  if (!list || others.length > 0) {
    return 'needs exactly one of int32_false_true, fp32_false_true and bool_false_true';
  }
  return list.length === 2 ? undefined : `needs two values, for false and for true, got ${list.length}`;
}

function checkState(problems: string[], state: ModelSequenceBatching_State, where: string): void {
  if (state.inputName === '') problems.push(`${where}: input_name is missing`);
  if (state.outputName === '') problems.push(`${where}: output_name is missing`);
  if (state.dataType === 0) problems.push(`${where}: data_type is missing`);
  const dims = problemOfDims(state.dims);
  if (dims !== undefined) problems.push(`${where}: dims ${formatDims(state.dims)}: ${dims}`);
  const { initialState } = state;
  if (initialState.length > 1)
    problems.push(`${where}: expected at most one initial_state, got ${initialState.length}`);
  const [initial] = initialState;
  if (!initial) return;
  const inside = `${where}.initial_state`;
  if (initial.dataType !== state.dataType) problems.push(`${inside}: data_type must be that of the state`);
  const fits =
    initial.dims.length === state.dims.length &&
    initial.dims.every((dim, index) => dim > 0n && (state.dims[index] === -1n || state.dims[index] === dim));
  if (!fits) {
    const expected = `dims of fixed lengths that fit ${formatDims(state.dims)}`;
    problems.push(`${inside}: expected ${expected}, got ${formatDims(initial.dims)}`);
  }
  if (initial.stateData.case === undefined) problems.push(`${inside}: expected zero_data or data_file`);
}

/** A tensor that the server fills cannot be one that clients send too. */
function checkNames(problems: string[], config: ModelConfig, { controlInput, state }: ModelSequenceBatching): void {
  const inputs = new Set(config.input.map(({ name }) => name));
  const filled = [
    ...controlInput.map(({ name }, index) => [`sequence_batching.control_input[${index}]`, name] as const),
    ...state.map(({ inputName }, index) => [`sequence_batching.state[${index}]`, inputName] as const),
  ];
  for (const [where, name] of filled) {
    if (name === '') continue;
    if (inputs.has(name))
      problems.push(`${where}: tensor "${name}" is an input already, in the config or in a row above`);
    inputs.add(name);
  }
  const outputs = new Set<string>();
  for (const [index, { outputName }] of state.entries()) {
    if (outputs.has(outputName))
      problems.push(`sequence_batching.state[${index}]: output "${outputName}" is there twice`);
    if (outputName !== '') outputs.add(outputName);
  }
}
