import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { bytes, int, message } from '../../support/onnx/wire.ts';
import { i64 } from './kit.ts';

const MINILM = fileURLToPath(new URL('../../../examples/models/minilm/1/model.onnx', import.meta.url));

/** The tensor inside MiniLM that it pools its answer from. */
const LAST_LAYER = 't291';

const FP32 = 1;

export const MINILM_INPUTS = 'input_ids=0, attention_mask=mask, token_type_ids=0';

const tensor = (name: string) => `{ name: "${name}" data_type: TYPE_INT64 dims: [ -1 ] }`;

const CONFIG = `max_batch_size: 32
input [ ${['input_ids', 'attention_mask', 'token_type_ids'].map(tensor).join(', ')} ]
output [ { name: "sentence_embedding" data_type: TYPE_FP32 dims: [ 384 ] },
         { name: "last_hidden_state" data_type: TYPE_FP32 dims: [ -1, 384 ] } ]
instance_group { count: 1 }
`;

export function parameters(values: Readonly<Record<string, string>>): string {
  return Object.entries(values)
    .map(([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }\n`)
    .join('');
}

/** MiniLM with the states of its tokens as a second output, one model for each config. */
export function writeMinilm(repository: string, configs: Readonly<Record<string, string>>): void {
  const file = join(repository, '.minilm.onnx');
  writeFileSync(file, withHiddenState(readFileSync(MINILM)));
  for (const [name, rest] of Object.entries(configs)) {
    mkdirSync(join(repository, name, '1'), { recursive: true });
    symlinkSync(file, join(repository, name, '1', 'model.onnx'));
    writeFileSync(join(repository, name, 'config.pbtxt'), CONFIG + rest);
  }
}

/** Protobuf merges a second graph into the first: one more node and one more output. */
function withHiddenState(model: Buffer): Buffer {
  const node = message([bytes(1, LAST_LAYER), bytes(2, 'last_hidden_state'), bytes(4, 'Identity')]);
  const dims = [bytes(2, 'batch'), bytes(2, 'sequence'), int(1, 384)].map((dim) => bytes(1, dim));
  const type = bytes(1, message([int(1, FP32), bytes(2, message(dims))]));
  const output = message([bytes(1, 'last_hidden_state'), bytes(2, type)]);
  return Buffer.concat([model, bytes(7, message([bytes(1, node), bytes(12, output)]))]);
}

/** Token ids of a made-up text. */
export function tokens(length: number, seed: number): number[] {
  return Array.from({ length }, (_, index) => 1000 + ((seed * 7919 + index * 104_729) % 20_000));
}

export function textInputs(ids: readonly number[], mask: readonly number[] = ids.map(() => 1)): Tensor[] {
  return [
    i64('input_ids', [1, ids.length], ids),
    i64('attention_mask', [1, mask.length], mask),
    i64(
      'token_type_ids',
      [1, ids.length],
      ids.map(() => 0),
    ),
  ];
}
