import { clone, create } from '@bufbuild/protobuf';
import {
  type DataType,
  type ModelConfig,
  ModelConfigSchema,
  ModelInputSchema,
  ModelOutputSchema,
} from '../proto/generated/model_config_pb.ts';
import { configTypeOf } from '../tensor/datatype.ts';
import type { EnsembleGraph, StepEnd } from './ensemble-graph.ts';
import { dimsFor } from './ensemble-shapes.ts';
import type { ReadyModel, TensorSpec } from './ready-model.ts';

/**
 * Fills in the inputs or outputs of an ensemble that lists none, from those of its members. `models` are those of the
 * steps, in their order; names that they do not have are passed over. Returns a new config.
 */
export function completeEnsembleConfig(
  config: ModelConfig,
  graph: EnsembleGraph,
  models: readonly ReadyModel[],
): ModelConfig {
  const completed = clone(ModelConfigSchema, config);
  const tensors = [...graph.tensors.values()];
  if (config.input.length === 0) {
    completed.input = tensors.flatMap(({ name, isInput, readers }) => {
      const declared = isInput ? declaration(readers, 'inputs', models, config) : undefined;
      return declared ? [create(ModelInputSchema, { name, ...declared })] : [];
    });
  }
  if (config.output.length === 0) {
    completed.output = tensors.flatMap(({ name, isOutput, writers }) => {
      const declared = isOutput ? declaration(writers, 'outputs', models, config) : undefined;
      return declared ? [create(ModelOutputSchema, { name, dataType: declared.dataType, dims: declared.dims })] : [];
    });
  }
  return completed;
}

interface Declaration {
  readonly dataType: DataType;
  readonly dims: bigint[];
  readonly optional: boolean;
}

function declaration(
  ends: readonly StepEnd[],
  side: 'inputs' | 'outputs',
  models: readonly ReadyModel[],
  config: ModelConfig,
): Declaration | undefined {
  const found = ends.flatMap(({ step, name }) => {
    const model = models[step.index];
    const spec = model?.[side].find((candidate) => candidate.name === name);
    return model && spec ? [{ spec, dims: dimsOf(spec, model, config) }] : [];
  });
  const [first] = found;
  if (!first) return undefined;
  return {
    dataType: configTypeOf(first.spec.datatype) as DataType, // the table of datatypes holds the enum's own numbers
    dims: found
      .map(({ dims }) => dims)
      .reduce(narrow)
      .map(BigInt),
    optional: found.every(({ spec }) => spec.optional),
  };
}

function dimsOf(spec: TensorSpec, model: ReadyModel, config: ModelConfig): number[] {
  return dimsFor({ shape: spec.shape, batched: model.maxBatchSize > 0 }, config.maxBatchSize > 0);
}

/** Where one reader fixes a dimension that another leaves open, it is fixed. */
function narrow(a: number[], b: number[]): number[] {
  return a.length === b.length ? a.map((dim, index) => (dim === -1 ? (b[index] ?? dim) : dim)) : a;
}
