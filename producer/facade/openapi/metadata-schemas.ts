import Type from 'typebox';
import { DATATYPES } from '../../../shared/tensor/datatype.ts';

const TensorMetadata = Type.Object({
  name: Type.String(),
  datatype: Type.Enum([...DATATYPES]),
  shape: Type.Array(Type.Integer({ minimum: -1 }), { description: '-1 where any size will do' }),
});

export const ErrorBody = Type.Object({ error: Type.String() });

export const ServerMetadataBody = Type.Object({
  name: Type.String(),
  version: Type.String(),
  extensions: Type.Array(Type.String()),
});

export const ModelMetadataBody = Type.Object({
  name: Type.String(),
  versions: Type.Array(Type.String()),
  platform: Type.String(),
  inputs: Type.Array(TensorMetadata),
  outputs: Type.Array(TensorMetadata),
  parameters: Type.Optional(
    Type.Object({ devices: Type.String() }, { description: 'for a model on GPUs: "gpu:0" or "gpu:0,gpu:1"' }),
  ),
});

export const ModelConfigBody = Type.Object(
  { name: Type.String(), platform: Type.String(), backend: Type.String(), max_batch_size: Type.Integer() },
  { additionalProperties: true, description: 'the completed config.pbtxt, with the names of its fields' },
);

export const RepositoryIndexRequestBody = Type.Object({
  ready: Type.Optional(Type.Boolean({ description: 'only what is ready' })),
});

export const RepositoryIndexBody = Type.Array(
  Type.Object({
    name: Type.String(),
    version: Type.Optional(Type.String()),
    state: Type.Optional(Type.String()),
    reason: Type.Optional(Type.String()),
  }),
);

export const LoadRequestBody = Type.Object({
  parameters: Type.Optional(
    Type.Object({}, { additionalProperties: Type.String(), description: '"config" and "file:…" replace files' }),
  ),
});

export const UnloadRequestBody = Type.Object({
  parameters: Type.Optional(Type.Object({ unload_dependents: Type.Optional(Type.Boolean()) })),
});
