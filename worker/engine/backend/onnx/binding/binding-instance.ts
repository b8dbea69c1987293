import { InferError } from '../../../../../shared/errors.ts';
import type { GraphTensor } from '../../../../../shared/model/graph-tensor.ts';
import type { Tensor } from '../../../../../shared/tensor/tensor.ts';
import type { ModelInstance, Run } from '../../../instance/instance.ts';
import { runError } from '../ort-error.ts';
import {
  assertInput,
  explainFailure,
  missingInputs,
  noOutputs,
  outputDatatype,
  repeatedInput,
  repeatedOutput,
  unknownInput,
  unknownOutput,
} from '../run-refusals.ts';
import type { SentOutput, SentTensor } from './messages.ts';
import type { SessionThread } from './session-thread.ts';

/** What the package can run on: it has no optional inputs. */
export interface BindingGraph {
  readonly inputs: readonly GraphTensor[];
  readonly outputs: readonly GraphTensor[];
}

/** A session in a thread of its own, which the package blocks for the whole run. */
export class BindingInstance implements ModelInstance {
  readonly #thread: SessionThread;
  readonly #graph: BindingGraph;
  #active: Promise<Tensor[]> | undefined;
  #closed: Promise<void> | undefined;

  constructor(thread: SessionThread, graph: BindingGraph) {
    this.#thread = thread;
    this.#graph = graph;
  }

  run(inputs: readonly Tensor[], outputs: readonly string[]): Run {
    const result = this.#start(inputs, outputs);
    // The package cannot end a run early.
    return { result, stop: () => undefined };
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    // Whether the run under way went well is its caller's business; here it only has to be over.
    await this.#active?.catch(() => undefined);
    await this.#thread.quit();
  }

  #start(inputs: readonly Tensor[], outputs: readonly string[]): Promise<Tensor[]> {
    if (this.#closed || this.#active) {
      return Promise.reject(new InferError('INTERNAL', `the instance is ${this.#closed ? 'closed' : 'busy'}`));
    }
    const active = this.#run(inputs, outputs).finally(() => (this.#active = undefined));
    this.#active = active;
    return active;
  }

  async #run(inputs: readonly Tensor[], outputs: readonly string[]): Promise<Tensor[]> {
    const answer = await this.#thread.run(sentInputs(this.#graph, inputs), sentOutputs(this.#graph, outputs));
    if (answer.type === 'outputs') return [...answer.outputs];
    if (answer.type === 'refused') throw new InferError('INVALID_ARGUMENT', answer.text);
    const text = answer.type === 'failed' ? answer.text : `unexpected answer ${answer.type}`;
    throw explainFailure(runError({ code: undefined, text }, false), inputs, this.#graph.inputs);
  }
}

/** Copies for the thread to keep: the caller's own data must stay as it is. */
function sentInputs(graph: BindingGraph, inputs: readonly Tensor[]): SentTensor[] {
  const given = new Set<string>();
  const sent = inputs.map((tensor): SentTensor => {
    const { name, datatype, shape } = tensor;
    const declared = graph.inputs.find((input) => input.name === name);
    if (!declared) throw unknownInput(name, namesOf(graph.inputs));
    if (given.has(name)) throw repeatedInput(name);
    given.add(name);
    assertInput(tensor, declared);
    return { name, datatype, shape, data: new Uint8Array(tensor.data) };
  });
  const missing = namesOf(graph.inputs).filter((name) => !given.has(name));
  if (missing.length > 0) throw missingInputs(missing);
  return sent;
}

function sentOutputs(graph: BindingGraph, names: readonly string[]): SentOutput[] {
  if (names.length === 0) throw noOutputs();
  return names.map((name, index) => {
    const declared = graph.outputs.find((output) => output.name === name);
    if (!declared) throw unknownOutput(name, namesOf(graph.outputs));
    if (names.indexOf(name) !== index) throw repeatedOutput(name);
    return { name, datatype: outputDatatype(declared) };
  });
}

function namesOf(tensors: readonly GraphTensor[]): string[] {
  return tensors.map((tensor) => tensor.name);
}
