import { type FileHandle, open } from 'node:fs/promises';

/** Fields of onnx.proto: ModelProto.graph and .functions, GraphProto.node, NodeProto.op_type. */
const GRAPH = 7;
const FUNCTIONS = 25;
const NODE = 1;
const OP_TYPE = 4;

/** Messages of a wire type that has a length. */
const DELIMITED = 2;

/** What is read at once: nodes are small and lie side by side. */
const WINDOW_BYTES = 256 * 1024;

/** The name under which the functions of a model file are counted, which is that of no operator. */
const LOCAL_FUNCTION = '(function)';

/**
 * How often each operator occurs in a model file, without reading its weights; undefined for a file that cannot be read so.
 * Graphs inside of nodes are not looked at.
 */
export async function operatorsOf(path: string): Promise<ReadonlyMap<string, number> | undefined> {
  const file = await open(path).catch(() => undefined); // it is loaded by somebody else, who says what is wrong with it
  if (!file) return undefined;
  try {
    const { size } = await file.stat();
    return await countInFile(new Reader(file, size));
  } catch {
    return undefined; // no protobuf of this kind
  } finally {
    await file.close();
  }
}

async function countInFile(reader: Reader): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  const add = (name: string) => counts.set(name, (counts.get(name) ?? 0) + 1);
  for await (const part of fieldsOf(reader, 0, reader.size)) {
    if (part.number === FUNCTIONS) add(LOCAL_FUNCTION);
    if (part.number !== GRAPH) continue;
    for await (const node of fieldsOf(reader, part.from, part.to)) {
      if (node.number !== NODE) continue;
      for await (const field of fieldsOf(reader, node.from, node.to)) {
        if (field.number === OP_TYPE) add((await reader.bytes(field.from, field.to)).toString('latin1'));
      }
    }
  }
  return counts;
}

interface Field {
  readonly number: number;
  readonly from: number;
  readonly to: number;
}

/** The fields with a length of the message that lies there; others are stepped over. */
async function* fieldsOf(reader: Reader, from: number, to: number): AsyncGenerator<Field> {
  let at = from;
  while (at < to) {
    const tag = await reader.varint(at);
    const number = Math.floor(tag.value / 8);
    switch (tag.value % 8) {
      case 0:
        at = (await reader.varint(tag.end)).end;
        break;
      case 1:
        at = tag.end + 8;
        break;
      case DELIMITED: {
        const length = await reader.varint(tag.end);
        at = length.end + length.value;
        if (at > to) throw new Error('a field ends behind its message');
        yield { number, from: length.end, to: at };
        break;
      }
      case 5:
        at = tag.end + 4;
        break;
      default:
        throw new Error('not a wire type');
    }
  }
}

/** Reads a file in windows, moved along as it goes. */
class Reader {
  readonly size: number;
  readonly #file: FileHandle;
  #window = Buffer.alloc(0);
  #from = 0;

  constructor(file: FileHandle, size: number) {
    this.#file = file;
    this.size = size;
  }

  /** A window holds them: the caller asks for no more than a node. */
  async bytes(from: number, to: number): Promise<Buffer> {
    if (from < this.#from || to > this.#from + this.#window.length) await this.#move(from);
    if (to > this.#from + this.#window.length) throw new Error('the file ends too early');
    return this.#window.subarray(from - this.#from, to - this.#from);
  }

  async varint(at: number): Promise<{ value: number; end: number }> {
    const bytes = await this.bytes(at, Math.min(at + 10, this.size));
    let value = 0;
    let scale = 1;
    for (const [index, byte] of bytes.entries()) {
      value += (byte & 0x7f) * scale;
      scale *= 128;
      if (byte < 0x80) return { value, end: at + index + 1 };
    }
    throw new Error('a number does not end');
  }

  async #move(from: number): Promise<void> {
    const window = Buffer.alloc(Math.min(WINDOW_BYTES, Math.max(0, this.size - from)));
    const { bytesRead } = await this.#file.read(window, 0, window.length, from);
    this.#window = window.subarray(0, bytesRead);
    this.#from = from;
  }
}
