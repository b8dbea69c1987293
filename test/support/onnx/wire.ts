/** The few rules of protobuf's wire format that writing an ONNX file takes. A message is a list of encoded fields. */
export type Field = Buffer;

export function message(fields: readonly Field[]): Buffer {
  return Buffer.concat(fields);
}

/** Field of wire type 0: int32, int64, bool, enum. Negative numbers take ten bytes, as protobuf wants. */
export function int(field: number, value: number | bigint): Field {
  return Buffer.concat([varint(BigInt(field) << 3n), varint(BigInt.asUintN(64, BigInt(value)))]);
}

/** Field of wire type 5: a 32-bit float. */
export function float(field: number, value: number): Field {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return Buffer.concat([varint((BigInt(field) << 3n) | 5n), bytes]);
}

/** Field of wire type 2: a text, bytes or a message. */
export function bytes(field: number, value: string | Uint8Array): Field {
  const content = typeof value === 'string' ? Buffer.from(value, 'utf8') : value;
  return Buffer.concat([varint((BigInt(field) << 3n) | 2n), varint(BigInt(content.length)), content]);
}

function varint(value: bigint): Buffer {
  const out: number[] = [];
  let rest = value;
  while (rest > 0x7fn) {
    out.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  out.push(Number(rest));
  return Buffer.from(out);
}
