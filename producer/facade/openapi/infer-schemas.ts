import Type from 'typebox';
import { DATATYPES } from '../../../shared/tensor/datatype.ts';

/*
 * What `infer` takes and gives. Infer requests are decoded by hand, because they are the hot path; a property test holds
 * these schemas against the decoder.
 */

const MAX_NAME_LENGTH = 1024;

const Name = Type.String({ minLength: 1, maxLength: MAX_NAME_LENGTH });
const Count = Type.Integer({ minimum: 0 });
const Shape = Type.Array(Count, { maxItems: 64 });
const DatatypeName = Type.Enum([...DATATYPES]);

const Data = Type.Array(Type.Union([Type.Number(), Type.Boolean(), Type.String(), Type.Array(Type.Unknown())]), {
  description: 'the elements, flat or nested, row-major',
});

const REGION = {
  shared_memory_region: Type.Optional(
    Type.String({ minLength: 1, description: 'a registered region that holds the tensor' }),
  ),
  shared_memory_byte_size: Type.Optional(Count),
  shared_memory_offset: Type.Optional(Count),
};

const Input = Type.Object({
  name: Name,
  datatype: DatatypeName,
  shape: Shape,
  data: Type.Optional(Data),
  parameters: Type.Optional(
    Type.Object({
      binary_data_size: Type.Optional(
        Type.Integer({ minimum: 0, description: 'bytes of this tensor behind the JSON; instead of data' }),
      ),
      ...REGION,
    }),
  ),
});

const Output = Type.Object({
  name: Name,
  parameters: Type.Optional(
    Type.Object({
      binary_data: Type.Optional(Type.Boolean({ description: 'as bytes behind the JSON' })),
      classification: Type.Optional(
        Type.Integer({ minimum: 0, description: 'the best so many as "value:index:label" instead of the tensor' }),
      ),
      ...REGION,
    }),
  ),
});

const ParameterValue = Type.Union([Type.String(), Type.Number(), Type.Boolean()]);

const Id = Type.String({ maxLength: 1024, description: 'comes back in the answer' });

export const InferRequestBody = Type.Object({
  id: Type.Optional(Id),
  inputs: Type.Array(Input, { minItems: 1, maxItems: 1024 }),
  outputs: Type.Optional(
    Type.Array(Output, { maxItems: 1024, description: 'which outputs, and how; all as JSON unless given' }),
  ),
  parameters: Type.Optional(
    Type.Object(
      {
        binary_data_output: Type.Optional(Type.Boolean({ description: 'outputs that are not listed come as bytes' })),
        bare_nan: Type.Optional(
          Type.Boolean({ description: 'NaN and infinities as bare words, as Triton writes them, rather than strings' }),
        ),
        priority: Type.Optional(Count),
        timeout: Type.Optional(Type.Integer({ minimum: 0, description: 'microseconds' })),
        sequence_id: Type.Optional(Type.Union([Count, Type.String()])),
        sequence_start: Type.Optional(Type.Boolean()),
        sequence_end: Type.Optional(Type.Boolean()),
      },
      { additionalProperties: ParameterValue, maxProperties: 256 },
    ),
  ),
});

const OutputTensor = Type.Object({
  name: Name,
  datatype: DatatypeName,
  shape: Shape,
  data: Type.Optional(
    Type.Array(Type.Union([Type.Number(), Type.Boolean(), Type.String()]), { description: 'flat, row-major' }),
  ),
  parameters: Type.Optional(Type.Object({ binary_data_size: Count })),
});

export const InferResponseBody = Type.Object({
  id: Type.Optional(Id),
  model_name: Type.String(),
  model_version: Type.String(),
  parameters: Type.Optional(Type.Object({}, { additionalProperties: ParameterValue })),
  outputs: Type.Array(OutputTensor),
});

/** Which keys are inputs depends on the model; each model has a schema of its own in the document. */
export const GenerateRequestBody = Type.Object(
  {
    id: Type.Optional(Type.Unknown({ description: 'comes back in the answer, unless the model has an input "id"' })),
    parameters: Type.Optional(Type.Unknown({ description: 'an object whose keys count as if they stood beside it' })),
  },
  {
    additionalProperties: Type.Union([ParameterValue, Type.Array(ParameterValue)]),
    description: 'keys are inputs of the model, as single values or flat lists, or parameters',
  },
);

export const GenerateResponseBody = Type.Object(
  { model_name: Type.Unknown(), model_version: Type.Unknown() },
  {
    additionalProperties: Type.Union([ParameterValue, Type.Array(ParameterValue)]),
    description: 'every output under its name; a single element without its list',
  },
);
