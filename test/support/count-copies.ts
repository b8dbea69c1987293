/** Pieces smaller than this are heads, names and shapes rather than tensors. */
const PIECE_BYTES = 4096;

/**
 * How many bytes are copied while `work` goes on, by everything in this process that is JavaScript of ours or of a package:
 * the ways to copy are few, and each is watched.
 */
export async function countCopies(work: () => Promise<unknown>): Promise<number> {
  let bytes = 0;
  const count = (byteLength: number) => {
    if (byteLength >= PIECE_BYTES) bytes += byteLength;
  };
  const restore = [
    watch(Buffer.prototype as object, 'copy', (_args, copied) => count(copied as number)),
    watch(TYPED_ARRAY, 'set', ([source]) => count(lengthOf(source))),
    watch(TYPED_ARRAY, 'slice', (_args, copy) => count(lengthOf(copy))),
    watch(Buffer, 'concat', (_args, joined) => count(lengthOf(joined))),
    watch(Buffer, 'from', ([source], copy) => count(source instanceof Uint8Array ? lengthOf(copy) : 0)),
  ];
  try {
    await work();
  } finally {
    for (const each of restore) each();
  }
  return bytes;
}

type Method = (this: unknown, ...args: unknown[]) => unknown;

function watch(owner: object, name: string, seen: (args: unknown[], result: unknown) => void): () => void {
  const methods = owner as Record<string, Method>;
  const original = methods[name]!;
  methods[name] = function (...args) {
    const result = original.apply(this, args);
    seen(args, result);
    return result;
  };
  return () => {
    methods[name] = original;
  };
}

/** What all typed arrays have in common. */
const TYPED_ARRAY: object = Reflect.getPrototypeOf(Uint8Array.prototype) ?? Uint8Array.prototype;

function lengthOf(data: unknown): number {
  return ArrayBuffer.isView(data) ? data.byteLength : 0;
}
