import type { Datatype } from '../shared/tensor/datatype.ts';

export type { Datatype };

/** The elements of a tensor in memory, row by row. FP16 and BF16 are their bits; a BOOL is 0 or 1. */
export interface ElementsOf {
  BOOL: Uint8Array;
  UINT8: Uint8Array;
  UINT16: Uint16Array;
  UINT32: Uint32Array;
  UINT64: BigUint64Array;
  INT8: Int8Array;
  INT16: Int16Array;
  INT32: Int32Array;
  INT64: BigInt64Array;
  FP16: Uint16Array;
  FP32: Float32Array;
  FP64: Float64Array;
  BF16: Uint16Array;
  BYTES: Uint8Array[];
}

/** What may stand for the elements of an input. Texts are sent as UTF-8. */
export type InputData<D extends Datatype> = D extends 'BYTES'
  ? readonly (string | Uint8Array)[]
  : D extends 'INT64' | 'UINT64'
    ? ElementsOf[D] | readonly (bigint | number)[]
    : D extends 'BOOL'
      ? ElementsOf[D] | readonly boolean[]
      : D extends 'FP16' | 'BF16'
        ? ElementsOf[D]
        : ElementsOf[D] | readonly number[];

/** A tensor to send. Its shape has the batch dimension in front where the model has one, as everywhere in the protocol. */
export interface InputTensor<D extends Datatype = Datatype> {
  readonly shape: readonly number[];
  readonly data: InputData<D>;
  /** What the model takes unless given, which the server is asked for once where the data alone does not say it. */
  readonly datatype?: D;
}

/** A tensor of an answer. */
export interface OutputTensor<D extends Datatype = Datatype> {
  readonly datatype: D;
  readonly shape: readonly number[];
  readonly data: ElementsOf[D];
}

/** What is known of a model at compile time; `millrace codegen` writes it for the models of a server. */
export interface ModelType {
  /** Datatypes by name. */
  readonly inputs: Readonly<Record<string, Datatype>>;
  /** Names of inputs that may be left out. */
  readonly optional?: string;
  readonly outputs: Readonly<Record<string, Datatype>>;
}

export type ModelTypes = Readonly<Record<string, ModelType>>;

type OptionalOf<M extends ModelType> = Extract<keyof M['inputs'], M['optional']>;

export type InputsOf<M extends ModelType> = {
  readonly [Name in Exclude<keyof M['inputs'], OptionalOf<M>>]: InputTensor<M['inputs'][Name]>;
} & { readonly [Name in OptionalOf<M>]?: InputTensor<M['inputs'][Name]> };

/** The outputs that were asked for, or all of them. */
export type OutputsOf<M extends ModelType, O extends OutputName<M> = OutputName<M>> = {
  readonly [Name in O]: OutputTensor<M['outputs'][Name]>;
};

export type OutputName<M extends ModelType> = keyof M['outputs'] & string;

export interface CallOptions {
  /** Ends the call: a request that waits in the queue is taken out of it. */
  readonly signal?: AbortSignal;
  /** How long the call may take in all, in ms. */
  readonly timeoutMs?: number;
}

export interface InferResult<M extends ModelType = ModelType, O extends OutputName<M> = OutputName<M>> {
  readonly model: string;
  /** The version that ran. */
  readonly version: string;
  readonly id: string;
  readonly outputs: OutputsOf<M, O>;
  readonly parameters: Readonly<Record<string, unknown>>;
}
