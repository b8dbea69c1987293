/** Bytes of small ONNX files to try a GPU with. Field numbers are those of onnx.proto. */

const FLOAT = 1;
const INTS = 7;

/** x + x, of any shape [n, 4]: one kernel. */
export function sumModel(): Buffer {
  return encodeModel([node('Add', ['x', 'x'], 'y')], [], ['n', 4], ['n', 4]);
}

/** Layers of matrices. @param width of each, so that a row costs `layers * width * width` multiplications */
export function matrixModel(layers: number, width: number): Buffer {
  const nodes: Buffer[] = [];
  const weights: Buffer[] = [];
  for (let layer = 0; layer < layers; layer += 1) {
    weights.push(tensor(`w${layer}`, [width, width]));
    nodes.push(node('MatMul', [layer === 0 ? 'x' : `r${layer - 1}`, `w${layer}`], `h${layer}`));
    nodes.push(node('Relu', [`h${layer}`], layer === layers - 1 ? 'y' : `r${layer}`));
  }
  return encodeModel(nodes, weights, ['n', width], ['n', width]);
}

/** Convolutions over a picture of `size` by `size`, and the mean of what they find. */
export function convolutionModel(layers: number, channels: number, size: number): Buffer {
  const nodes: Buffer[] = [];
  const weights: Buffer[] = [];
  for (let layer = 0; layer < layers; layer += 1) {
    const from = layer === 0 ? 3 : channels;
    weights.push(tensor(`w${layer}`, [channels, from, 3, 3]));
    const pads = bytes(5, ints('pads', [1, 1, 1, 1]));
    nodes.push(node('Conv', [layer === 0 ? 'x' : `r${layer - 1}`, `w${layer}`], `c${layer}`, pads));
    nodes.push(node('Relu', [`c${layer}`], `r${layer}`));
  }
  nodes.push(node('GlobalAveragePool', [`r${layers - 1}`], 'y'));
  return encodeModel(nodes, weights, ['n', 3, size, size], ['n', channels, 1, 1]);
}

function encodeModel(
  nodes: readonly Buffer[],
  weights: readonly Buffer[],
  input: readonly (number | string)[],
  output: readonly (number | string)[],
): Buffer {
  const graph = Buffer.concat([
    ...nodes.map((one) => bytes(1, one)),
    bytes(2, 'probe'),
    ...weights.map((one) => bytes(5, one)),
    bytes(11, value('x', input)),
    bytes(12, value('y', output)),
  ]);
  return Buffer.concat([
    int(1, 8),
    bytes(2, 'millrace'),
    bytes(7, graph),
    bytes(8, Buffer.concat([bytes(1, ''), int(2, 17)])),
  ]);
}

function node(
  operator: string,
  inputs: readonly string[],
  output: string,
  attribute: Buffer = Buffer.alloc(0),
): Buffer {
  return Buffer.concat([
    ...inputs.map((name) => bytes(1, name)),
    bytes(2, output),
    bytes(3, output),
    bytes(4, operator),
    attribute,
  ]);
}

function ints(name: string, values: readonly number[]): Buffer {
  return Buffer.concat([bytes(1, name), ...values.map((one) => int(8, one)), int(20, INTS)]);
}

/** Small numbers of both signs, the same each time. */
function tensor(name: string, dims: readonly number[]): Buffer {
  const count = dims.reduce((product, dim) => product * dim, 1);
  const scale = 2 / Math.sqrt(count / (dims[0] ?? 1));
  const data = Float32Array.from({ length: count }, (_, index) => (((index * 7919) % 1009) / 1009 - 0.5) * scale);
  const raw = Buffer.from(data.buffer);
  return Buffer.concat([...dims.map((dim) => int(1, dim)), int(2, FLOAT), bytes(8, name), bytes(9, raw)]);
}

function value(name: string, dims: readonly (number | string)[]): Buffer {
  const shape = dims.map((dim) => bytes(1, typeof dim === 'string' ? bytes(2, dim) : int(1, dim)));
  const type = bytes(1, Buffer.concat([int(1, FLOAT), bytes(2, Buffer.concat(shape))]));
  return Buffer.concat([bytes(1, name), bytes(2, type)]);
}

function int(field: number, number: number): Buffer {
  return Buffer.concat([varint(field << 3), varint(number)]);
}

function bytes(field: number, content: string | Buffer): Buffer {
  const data = typeof content === 'string' ? Buffer.from(content) : content;
  return Buffer.concat([varint((field << 3) | 2), varint(data.length), data]);
}

function varint(number: number): Buffer {
  const out: number[] = [];
  let rest = number;
  while (rest > 127) {
    out.push((rest % 128) | 128);
    rest = Math.floor(rest / 128);
  }
  out.push(rest);
  return Buffer.from(out);
}
