import { InferError } from '../../../../../shared/errors.ts';
import type { Tensor } from '../../../../../shared/tensor/tensor.ts';
import type { ModelInstance, Run } from '../../../../../worker/engine/instance/instance.ts';

/** A run that the test ends. */
export interface HeldRun {
  readonly inputs: readonly Tensor[];
  readonly outputs: readonly string[];
  readonly alone: boolean;
  stopped: boolean;
  /** Answers with the first input under the name of each output. */
  finish(): void;
  answer(outputs: Tensor[]): void;
  fail(error: InferError): void;
}

/** Holds every run until the test ends it. Inputs are copied, because the engine writes its next batch over them. */
export class FakeInstance implements ModelInstance {
  readonly runs: HeldRun[] = [];
  closed = false;
  /** False for a run that does not react when it is told to stop. */
  stoppable = true;

  run(inputs: readonly Tensor[], outputs: readonly string[], alone = false): Run {
    const copies = inputs.map((tensor) => ({ ...tensor, data: tensor.data.slice() }));
    let resolve: (tensors: Tensor[]) => void = () => {};
    let reject: (error: InferError) => void = () => {};
    const result = new Promise<Tensor[]>((onResolve, onReject) => {
      resolve = onResolve;
      reject = onReject;
    });
    const held: HeldRun = {
      inputs: copies,
      outputs,
      alone,
      stopped: false,
      finish: () => resolve(outputs.map((name) => ({ ...copies[0]!, name }))),
      answer: resolve,
      fail: reject,
    };
    this.runs.push(held);
    return {
      result,
      stop: () => {
        held.stopped = true;
        if (this.stoppable) reject(new InferError('CANCELLED', 'stopped'));
      },
    };
  }

  /** The runs that were started so far, by the values of their first input. */
  get batches(): number[][] {
    return this.runs.map(({ inputs }) => [...floatsOf(inputs[0]!)]);
  }

  close(): Promise<void> {
    this.closed = true;
    return Promise.resolve();
  }
}

export function floats(name: string, shape: readonly number[], values: readonly number[]): Tensor {
  return { name, datatype: 'FP32', shape, data: new Uint8Array(new Float32Array(values).buffer) };
}

export function floatsOf(tensor: Tensor): Float32Array {
  return new Float32Array(new Uint8Array(tensor.data).buffer);
}

/** Lets everything happen that is due already: settled promises and their followers. */
export async function settle(): Promise<void> {
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
}
