import Type from 'typebox';

const Vector = Type.Array(Type.Number());
const LabelScore = Type.Object({ label: Type.String(), score: Type.Number() });
const LabelScores = Type.Array(LabelScore);

/** Labels of a photo or a file, or of each text; the vector of a photo or a text, or of each text, or of each token. */
export const TaskAnswerBody = Type.Union([
  LabelScores,
  Type.Array(LabelScores),
  Vector,
  Type.Array(Vector),
  Type.Array(Type.Array(Vector)),
]);

export const TaskModelBody = Type.Object({
  id: Type.String(),
  pipeline_tag: Type.Union([Type.String(), Type.Null()], { description: 'null for a model that takes tensors only' }),
  version: Type.String(),
});

const OpenAiModel = Type.Object({
  id: Type.String(),
  object: Type.Literal('model'),
  created: Type.Integer(),
  owned_by: Type.String(),
});

export const OpenAiModelBody = OpenAiModel;

export const OpenAiModelsBody = Type.Object({ object: Type.Literal('list'), data: Type.Array(OpenAiModel) });

export const EmbeddingsAnswerBody = Type.Object({
  object: Type.Literal('list'),
  model: Type.String(),
  data: Type.Array(
    Type.Object({
      object: Type.Literal('embedding'),
      index: Type.Integer({ minimum: 0 }),
      embedding: Type.Union([Vector, Type.String({ description: 'little-endian FP32 in base64' })]),
    }),
  ),
  usage: Type.Object({ prompt_tokens: Type.Integer(), total_tokens: Type.Integer() }),
});

export const OpenAiErrorBody = Type.Object({
  error: Type.Object({
    message: Type.String(),
    type: Type.String(),
    param: Type.Union([Type.String(), Type.Null()]),
    code: Type.Union([Type.String(), Type.Null()]),
  }),
});
