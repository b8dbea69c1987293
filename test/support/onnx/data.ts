/** Little-endian bytes of numbers, for initializers and tensors of tests. */
export function f32(...values: number[]): Buffer {
  return viewOf(Float32Array.from(values));
}

export function i32(...values: number[]): Buffer {
  return viewOf(Int32Array.from(values));
}

export function i64(...values: (number | bigint)[]): Buffer {
  return viewOf(BigInt64Array.from(values, BigInt));
}

/** Elements in KServe's binary form: a little-endian uint32 length and the bytes of each. */
export function byteElements(...elements: (string | Uint8Array)[]): Buffer {
  return Buffer.concat(
    elements.flatMap((element) => {
      const content = Buffer.from(element);
      const length = Buffer.alloc(4);
      length.writeUInt32LE(content.length);
      return [length, content];
    }),
  );
}

/** The numbers of an FP32 tensor's data. */
export function f32Of(data: Uint8Array): number[] {
  return Array.from(new Float32Array(aligned(data)));
}

export function i32Of(data: Uint8Array): number[] {
  return Array.from(new Int32Array(aligned(data)));
}

export function i64Of(data: Uint8Array): bigint[] {
  return Array.from(new BigInt64Array(aligned(data)));
}

function viewOf(values: ArrayBufferView): Buffer {
  return Buffer.from(values.buffer, values.byteOffset, values.byteLength);
}

function aligned(data: Uint8Array): ArrayBuffer {
  return new Uint8Array(data).buffer;
}
