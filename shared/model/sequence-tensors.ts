import {
  type ModelConfig,
  type ModelSequenceBatching,
  type ModelSequenceBatching_Control,
  ModelSequenceBatching_Control_Kind as Kind,
  type ModelSequenceBatching_InitialState,
} from '../proto/generated/model_config_pb.ts';
import { type Datatype, datatypeOfConfig } from '../tensor/datatype.ts';

/** An input that tells the model about the sequence of each row. Clients neither see nor send it. */
export interface ControlTensor {
  readonly name: string;
  readonly kind: 'start' | 'ready' | 'end' | 'corrid';
  readonly datatype: Datatype;
  /** What stands for false and true; nothing for the correlation id. */
  readonly falseTrue: readonly [number, number];
}

/** An output of the model that is its input for the next request of the same sequence. */
export interface StateTensor {
  readonly inputName: string;
  readonly outputName: string;
  readonly datatype: Datatype;
  /** Without the batch dimension; -1 for variable ones. */
  readonly dims: readonly number[];
  /** What it is when a sequence starts; undefined for zeros. */
  readonly initial: ModelSequenceBatching_InitialState | undefined;
}

export const CONTROL_DIMS: readonly number[] = [1];

/** By the number of the kind. */
const KINDS: Readonly<Record<number, ControlTensor['kind']>> = {
  [Kind.CONTROL_SEQUENCE_START]: 'start',
  [Kind.CONTROL_SEQUENCE_READY]: 'ready',
  [Kind.CONTROL_SEQUENCE_END]: 'end',
  [Kind.CONTROL_SEQUENCE_CORRID]: 'corrid',
};

/** Undefined for a model without sequences. */
export function sequenceBatchingOf({ schedulingChoice }: ModelConfig): ModelSequenceBatching | undefined {
  return schedulingChoice.case === 'sequenceBatching' ? schedulingChoice.value : undefined;
}

/** In the order of the config; what is not valid is left out, as sequence-problems.ts names it. */
export function controlsOf(batching: ModelSequenceBatching): ControlTensor[] {
  return batching.controlInput.flatMap(({ name, control: [control] }) => {
    const kind = control && KINDS[control.kind];
    const value = control && controlValue(control);
    return kind && value && name !== '' ? [{ name, kind, ...value }] : [];
  });
}

/** In the order of the config; what is not valid is left out, as sequence-problems.ts names it. */
export function statesOf(batching: ModelSequenceBatching): StateTensor[] {
  return batching.state.flatMap(({ inputName, outputName, dataType, dims, initialState: [initial] }) => {
    const datatype = datatypeOfConfig(dataType);
    if (datatype === undefined || inputName === '' || outputName === '') return [];
    return [{ inputName, outputName, datatype, dims: dims.map(Number), initial }];
  });
}

/** Inputs of the model file that the server itself fills. */
export function hiddenInputs(config: ModelConfig): ReadonlySet<string> {
  const batching = sequenceBatchingOf(config);
  if (!batching) return new Set();
  return new Set([...batching.controlInput.map(({ name }) => name), ...batching.state.map((s) => s.inputName)]);
}

/** Outputs of the model file that the server keeps. A config may list them for clients all the same. */
export function hiddenOutputs(config: ModelConfig): ReadonlySet<string> {
  return new Set(sequenceBatchingOf(config)?.state.map(({ outputName }) => outputName));
}

/** The type and values of a control; undefined where the config does not say them. */
function controlValue(
  control: ModelSequenceBatching_Control,
): Pick<ControlTensor, 'datatype' | 'falseTrue'> | undefined {
  if (control.kind === Kind.CONTROL_SEQUENCE_CORRID) {
    const datatype = datatypeOfConfig(control.dataType);
    return datatype && { datatype, falseTrue: [0, 1] };
  }
  const { int32FalseTrue, fp32FalseTrue, boolFalseTrue } = control;
  if (int32FalseTrue.length > 0) return pair('INT32', int32FalseTrue);
  if (fp32FalseTrue.length > 0) return pair('FP32', fp32FalseTrue);
  return pair('BOOL', boolFalseTrue.map(Number));
}

function pair(
  datatype: Datatype,
  [no, yes]: readonly number[],
): Pick<ControlTensor, 'datatype' | 'falseTrue'> | undefined {
  return no === undefined || yes === undefined ? undefined : { datatype, falseTrue: [no, yes] };
}
