import type { Datatype } from '../../../shared/tensor/datatype.ts';

/** What is written down of a model. */
export interface TypedModel {
  readonly name: string;
  readonly inputs: readonly TypedTensor[];
  readonly outputs: readonly TypedTensor[];
}

export interface TypedTensor {
  readonly name: string;
  readonly datatype: Datatype;
  /** -1 for a variable dimension. */
  readonly shape: readonly number[];
  readonly optional: boolean;
}

/** The text of a TypeScript file whose type `Models` goes with `new Millrace<Models>(…)`. */
export function writeTypes(models: readonly TypedModel[]): string {
  return [
    '// Written by `millrace codegen`; run it again when the models change.',
    '',
    '/** Datatypes of the inputs and outputs of each model. */',
    'export type Models = {',
    ...models.flatMap(modelLines),
    '};',
    '',
  ].join('\n');
}

function modelLines({ name, inputs, outputs }: TypedModel): string[] {
  const optional = inputs.filter((input) => input.optional).map((input) => literal(input.name));
  return [
    `  ${key(name)}: {`,
    '    inputs: {',
    ...inputs.flatMap(tensorLines),
    '    };',
    ...(optional.length > 0 ? [`    optional: ${optional.join(' | ')};`] : []),
    '    outputs: {',
    ...outputs.flatMap(tensorLines),
    '    };',
    '  };',
  ];
}

function tensorLines({ name, datatype, shape }: TypedTensor): string[] {
  return [`      /** [${shape.join(', ')}] */`, `      ${key(name)}: ${literal(datatype)};`];
}

function key(name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? name : literal(name);
}

function literal(text: string): string {
  const inner = JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'");
  return `'${inner}'`;
}
