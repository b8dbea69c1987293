import type { ModelConfig } from '../proto/generated/model_config_pb.ts';
import type { Datatype } from '../tensor/datatype.ts';

/** An input or output as the config declares it. */
export interface TensorSpec {
  readonly name: string;
  readonly datatype: Datatype;
  /** As a client sees it: the batch dimension, when there is one, in front as -1; -1 for variable dimensions. */
  readonly shape: readonly number[];
  /** As the model itself sees it: `reshape` applied, batch dimension in front as -1. Equal to `shape` without reshape. */
  readonly modelShape: readonly number[];
  readonly optional: boolean;
  /** Outputs: one label per index, from `label_filename`; empty when there is none. */
  readonly labels: readonly string[];
}

/** A model version that can be called: everything that facades, validation and preprocessing need to know of it. */
export interface ReadyModel {
  readonly name: string;
  /** A positive decimal number. */
  readonly version: string;
  /** All ready versions of this model, ascending. */
  readonly versions: readonly string[];
  readonly platform: string;
  /** 0 means that tensors have no batch dimension. Counted in rows. */
  readonly maxBatchSize: number;
  /** In the order of the config. */
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  /** Completed and normalised. */
  readonly config: ModelConfig;
  readonly files: ModelFiles;
  /**
   * Stands for what the model computes: equal for equal files and configs on any machine, another one when either has
   * changed. Only where answers may be kept (`response_cache`), since it takes reading all files.
   */
  readonly identity?: string | undefined;
}

/** The small text files beside config.pbtxt that describe preprocessing: preprocessor_config.json, tokenizer.json, … */
export interface ModelFiles {
  /** Names of the files that there are, relative to the model folder, with '/'. */
  readonly names: readonly string[];
  /** @throws InferError NOT_FOUND for a name that is not in `names`. */
  read(name: string): Promise<Buffer>;
}
