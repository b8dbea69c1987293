import type { Devices } from '../../../shared/model/devices.ts';
import type { GpuOptions } from '../../../shared/model/gpu-options.ts';
import type { GraphTensor } from '../../../shared/model/graph-tensor.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';

/** One execution under way. */
export interface Run {
  /**
   * The outputs asked for, in that order, as tensors of whole batches. Their data is owned by the receiver.
   * Rejects with an InferError: INVALID_ARGUMENT when the model refused the input, CANCELLED after `stop`, else INTERNAL.
   */
  readonly result: Promise<Tensor[]>;
  /** Asks the run to end early, where the implementation can. The result still settles; never call it afterwards. */
  stop(): void;
}

/** One loaded copy of a model that runs one batch at a time, on the event loop only where that is the shorter way. */
export interface ModelInstance {
  /**
   * Starts a run. Input data must stay untouched until the result has settled. Shapes are the model's own (batch
   * dimension included). Errors of the model file's own contract (names, types, ranks) reject the result.
   * @param alone nothing else is in hand, so the event loop has nothing better to do
   */
  run(inputs: readonly Tensor[], outputs: readonly string[], alone?: boolean): Run;
  /** Waits for a run under way, then frees the copy. */
  close(): Promise<void>;
}

export interface GpuUse {
  readonly gpu: number;
  readonly usedBytes: number;
  readonly freeBytes: number;
}

/** A model file in memory; several instances may share its weights. */
export interface LoadedModel {
  readonly inputs: readonly GraphTensor[];
  /** Inputs with a default value in the file, which a run may leave out; absent where a backend cannot take them. */
  readonly optionalInputs?: readonly GraphTensor[];
  readonly outputs: readonly GraphTensor[];
  /**
   * @param gpu its number, for an instance on a GPU; unless given, it runs on the CPU
   * @throws InferError with the reason when the GPU has no room for it or does not work
   */
  createInstance(gpu?: number): Promise<ModelInstance>;
  /** What of a model on GPUs runs on the CPU all the same; '' when nothing does. */
  readonly remark?: string;
  /** For a model that runs on GPUs, where the backend can tell. */
  readonly gpu?: {
    /** Each new number of rows costs a search of its own at its first run, so there should be few of them. */
    readonly fewSizes: boolean;
    /** What the load has taken of each of its GPUs so far, and what is free there. */
    memory(): readonly GpuUse[];
  };
  /** Its runs are requests from now on. Before, they give way to those of other models, where the backend can do that. */
  startServing?(): void;
  /** Frees the weights. All instances have been closed before. */
  close(): Promise<void>;
}

/** Session options by ONNX Runtime's names, from config.pbtxt. */
export interface LoadOptions {
  /** Absolute path of the model file. */
  readonly path: string;
  /** Default 1: the thread that calls does the work. */
  readonly intraOpNumThreads: number;
  readonly interOpNumThreads: number;
  readonly executionMode: 'sequential' | 'parallel';
  readonly graphOptimizationLevel: 'disabled' | 'basic' | 'extended' | 'all';
  readonly enableCpuMemArena: boolean;
  readonly enableMemPattern: boolean;
  /** Exact int8 products on x64 processors without VNNI, where ONNX Runtime's default saturates. */
  readonly exactInt8: boolean;
  /** Entries of the session's configuration, by ONNX Runtime's own names. */
  readonly sessionEntries: Readonly<Record<string, string>>;
  /** Memory arenas that shrink after every run, as `cpu:0`; '' for none. */
  readonly arenaShrinkage: string;
  /** Absolute paths of libraries with operators of the model's own. */
  readonly customOpLibraries: readonly string[];
  /** Undefined for a model without instances on GPUs. */
  readonly gpu?: GpuOptions;
}

/** Knows how to load one kind of model. */
export interface Backend {
  /**
   * @param inBackground whether all it takes, and its runs until `startServing`, give way to runs of other models, where
   *   the backend can do that. Default false.
   * @throws InferError INVALID_ARGUMENT with ONNX Runtime's text (no path) when the file cannot be loaded.
   */
  load(options: LoadOptions, inBackground?: boolean): Promise<LoadedModel>;
  /** Finds out, once, which GPUs work; absent where GPU support is not installed. Never rejects. */
  devices?(): Promise<Devices>;
}
