// A model repository with one model that gives back its input, of any length.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';

export const MODEL = 'identity';

const FLOAT = 1;
const CONFIG = `name: "${MODEL}"
platform: "onnxruntime_onnx"
max_batch_size: 8
input { name: "INPUT" data_type: TYPE_FP32 dims: -1 }
output { name: "OUTPUT" data_type: TYPE_FP32 dims: -1 }
`;

export function writeIdentityModel(repository) {
  const folder = join(repository, MODEL);
  mkdirSync(join(folder, '1'), { recursive: true });
  writeFileSync(join(folder, 'config.pbtxt'), CONFIG);
  writeFileSync(join(folder, '1', 'model.onnx'), onnxFile());
}

/** Field numbers are those of onnx.proto. */
function onnxFile() {
  const node = message((fields) => text(text(text(fields, 1, 'INPUT'), 2, 'OUTPUT'), 4, 'Identity'));
  const graph = message((fields) => {
    text(bytes(fields, 1, node), 2, MODEL);
    bytes(fields, 11, value('INPUT'));
    bytes(fields, 12, value('OUTPUT'));
  });
  const opset = message((fields) => int(text(fields, 1, ''), 2, 17));
  return message((fields) => bytes(bytes(int(fields, 1, 8), 7, graph), 8, opset));
}

function value(name) {
  const dim = (symbol) => message((fields) => text(fields, 2, symbol));
  const shape = message((fields) => bytes(bytes(fields, 1, dim('batch')), 1, dim('length')));
  const tensor = message((fields) => bytes(int(fields, 1, FLOAT), 2, shape));
  return message((fields) =>
    bytes(
      text(fields, 1, name),
      2,
      message((type) => bytes(type, 1, tensor)),
    ),
  );
}

function message(write) {
  const writer = new BinaryWriter();
  write(writer);
  return writer.finish();
}

const bytes = (writer, field, content) => writer.tag(field, WireType.LengthDelimited).bytes(content);
const text = (writer, field, content) => writer.tag(field, WireType.LengthDelimited).string(content);
const int = (writer, field, content) => writer.tag(field, WireType.Varint).int32(content);
