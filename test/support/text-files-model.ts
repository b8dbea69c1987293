import { fromJson } from '@bufbuild/protobuf';
import { createReadyModel } from '../../shared/model/create-ready-model.ts';
import type { ReadyModel } from '../../shared/model/ready-model.ts';
import { ModelConfigSchema } from '../../shared/proto/generated/model_config_pb.ts';
import { configTypeOf, type Datatype } from '../../shared/tensor/datatype.ts';

export interface ModelParts {
  readonly name?: string;
  readonly maxBatchSize?: number;
  readonly inputs: Readonly<Record<string, readonly [Datatype, ...number[]]>>;
  readonly outputs?: Readonly<Record<string, readonly [Datatype, ...number[]]>>;
  /** Of the first output. */
  readonly labels?: readonly string[];
  readonly parameters?: Readonly<Record<string, string>>;
  /** Contents by file name. */
  readonly files?: Readonly<Record<string, string>>;
}

/** A model as the repository gives it, with files from memory. Dims are as in config.pbtxt, without the batch. */
export function modelWithFiles(parts: ModelParts): ReadyModel {
  const { name = 'm', maxBatchSize = 8, inputs, outputs = {}, labels = [], parameters = {}, files = {} } = parts;
  const tensors = (specs: typeof inputs) =>
    Object.entries(specs).map(([tensor, [datatype, ...dims]]) => ({
      name: tensor,
      dataType: configTypeOf(datatype),
      dims,
    }));
  const config = fromJson(ModelConfigSchema, {
    name,
    maxBatchSize,
    input: tensors(inputs),
    output: tensors(outputs).map((output, index) => ({ ...output, labelFilename: index === 0 ? 'labels.txt' : '' })),
    parameters: Object.fromEntries(Object.entries(parameters).map(([key, stringValue]) => [key, { stringValue }])),
  });
  return createReadyModel({
    config,
    version: '1',
    versions: ['1'],
    labels: new Map(labels.length > 0 ? [['labels.txt', labels]] : []),
    files: {
      names: Object.keys(files),
      read: (file) => Promise.resolve(Buffer.from(files[file]!)),
    },
  });
}
