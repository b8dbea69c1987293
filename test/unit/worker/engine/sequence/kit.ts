import { InferError } from '../../../../../shared/errors.ts';
import type { Call } from '../../../../../shared/infer/call.ts';
import type { Parameters } from '../../../../../shared/infer/request.ts';
import { createReadyModel } from '../../../../../shared/model/create-ready-model.ts';
import { normaliseModelConfig } from '../../../../../shared/model/normalise-config.ts';
import { parseModelConfig } from '../../../../../shared/model/parse-config.ts';
import { createModelPlan } from '../../../../../worker/engine/batch/model-plan.ts';
import { ModelSequences } from '../../../../../worker/engine/sequence/model-sequences.ts';
import { planSequences } from '../../../../../worker/engine/sequence/plan-sequences.ts';
import { SequenceScheduler } from '../../../../../worker/engine/sequence/sequence-scheduler.ts';
import { floats, floatsOf, type HeldRun, settle } from '../support/fake-instance.ts';
import { callAt, schedulerParts, type SchedulerParts } from '../support/scheduler-kit.ts';

export const IDLE_MS = 1000;

const SWITCH = (kind: string) =>
  `control_input { name: "${kind}" control { kind: CONTROL_SEQUENCE_${kind} fp32_false_true: [ 0, 1 ] } }`;
export const CONTROLS = [
  ...['START', 'READY', 'END'].map(SWITCH),
  'control_input { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }',
].join('\n');
export const STATE = 'state { input_name: "in" output_name: "out" data_type: TYPE_FP32 dims: [ 1 ] }';

export interface Outcome {
  /** What the answer says, or the code of the error. */
  readonly result: Promise<number | string>;
  readonly text: Promise<string>;
  readonly call: Call;
}

/** A scheduler over instances that hold each run until the test answers it. */
export class SequenceBench {
  scheduler: SequenceScheduler;
  readonly parts: SchedulerParts;
  /** Puts another version in the place of the one before, which goes on with what it has. */
  readonly replace: (version?: string) => SequenceScheduler;

  constructor(create: (version: string) => SequenceScheduler, parts: SchedulerParts) {
    this.parts = parts;
    this.scheduler = create('1');
    this.replace = (version = '1') => {
      const before = this.scheduler;
      this.scheduler = create(version);
      return before;
    };
  }

  /** `x` for the sequence. */
  send(
    id: number | bigint | string,
    x: number,
    flags: 'start' | 'end' | 'both' | '' = '',
    columns = 1,
    version = '',
  ): Outcome {
    const parameters: Parameters = {
      sequence_id: id,
      sequence_start: flags === 'start' || flags === 'both',
      sequence_end: flags === 'end' || flags === 'both',
    };
    const inputs = [floats('x', [1, columns], new Array<number>(columns).fill(x))];
    const call = callAt(this.parts.clock);
    const answer = this.scheduler.enqueue({ id: '', model: 'm', version, inputs, outputs: [], parameters }, call);
    return {
      call,
      result: answer.then(
        ({ outputs }) => floatsOf(outputs[0]!)[0]!,
        (error: unknown) => (error instanceof InferError ? error.code : 'foreign'),
      ),
      text: answer.then(
        () => '',
        (error: unknown) => (error instanceof Error ? error.message : 'foreign'),
      ),
    };
  }

  /** All runs so far, over all instances. */
  get runs(): readonly HeldRun[] {
    return this.parts.instances.flatMap(({ runs }) => runs);
  }

  /** The runs of an instance, each as the `x` of its rows. */
  rows(instance = 0): number[][] {
    return this.parts.instances[instance]!.runs.map((run) => columnOf(run, 'x'));
  }
}

export async function createBench(
  batching: string,
  options: { maxBatchSize?: number; instances?: number; maxQueueSize?: number } = {},
): Promise<SequenceBench> {
  const { maxBatchSize = 4, ...rest } = options;
  const idle = `max_sequence_idle_microseconds: ${IDLE_MS * 1000}`;
  const text = `name: "m" max_batch_size: ${maxBatchSize}
    input { name: "x" data_type: TYPE_FP32 dims: [ -1 ] } output { name: "y" data_type: TYPE_FP32 dims: [ -1 ] }
    sequence_batching { ${idle} ${batching} }`;
  const config = normaliseModelConfig(parseModelConfig(text, 'config.pbtxt'));
  const files = { names: [], read: () => Promise.reject(new Error('no files')) };
  const ready = createReadyModel({ config, version: '1', versions: ['1'], labels: new Map(), files });
  const planned = await planSequences(ready, '/nowhere', createModelPlan(ready));
  const parts = schedulerParts(rest);
  if (!planned) throw new Error('no sequences');
  const siblings = new ModelSequences(parts.clock);
  return new SequenceBench((version) => new SequenceScheduler({ ...parts, ...planned, version, siblings }), parts);
}

/** The values of an input, one for each row. */
export function columnOf(run: HeldRun, name: string): number[] {
  const tensor = run.inputs.find((input) => input.name === name);
  if (!tensor) return [];
  if (tensor.datatype === 'UINT64') return [...new BigUint64Array(tensor.data.slice().buffer)].map(Number);
  const rows = tensor.shape[0]!;
  const values = floatsOf(tensor);
  return Array.from({ length: rows }, (_, row) => values[(row * values.length) / rows]!);
}

/** Answers as a model that adds `x` to its state, and says the sum. */
export function answerSums(run: HeldRun): void {
  const states = columnOf(run, 'in');
  const sums = columnOf(run, 'x').map((x, row) => x + (states[row] ?? 0));
  run.answer(run.outputs.map((name) => floats(name, [sums.length, 1], sums)));
}

/** Answers each run as it comes, until nothing runs any more. */
export async function answerAll(bench: SequenceBench): Promise<void> {
  const answered = new Set<object>();
  for (let quiet = 0; quiet < 2;) {
    const open = bench.runs.filter((run) => !answered.has(run));
    quiet = open.length === 0 ? quiet + 1 : 0;
    for (const run of open) {
      answered.add(run);
      answerSums(run);
    }
    await settle();
  }
}
