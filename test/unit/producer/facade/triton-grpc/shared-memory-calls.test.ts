import { create, type DescMessage, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { Metadata } from '@grpc/grpc-js';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createSharedMemoryCalls } from '../../../../../producer/facade/triton-grpc/shared-memory-calls.ts';
import { Admission } from '../../../../../producer/service/admission.ts';
import { SharedMemory } from '../../../../../producer/service/shared-memory.ts';
import { InferError } from '../../../../../shared/errors.ts';
import { Call } from '../../../../../shared/infer/call.ts';
import { GRPCInferenceService } from '../../../../../shared/proto/generated/grpc_service_pb.ts';
import { useShm } from '../../../../support/shm.ts';

const { method } = GRPCInferenceService;
const admission = new Admission({ maxRequestsInFlight: 1, maxBytesInFlight: 1 });
const createShm = useShm();
let memory: SharedMemory;

beforeEach(() => {
  memory = new SharedMemory({ enabled: true, admission });
});
afterEach(() => memory.close());

function context() {
  return { metadata: new Metadata(), call: new Call('call', 0, Infinity) };
}

/** Sends a message and gives the answer as the client would read it, after it went through its wire form. */
async function send<I extends DescMessage, O extends DescMessage>(
  { input, output }: { input: I; output: O },
  handler: (message: never, context: never) => unknown,
  init: MessageInitShape<I>,
): Promise<MessageInitShape<O>> {
  const answer = (await handler(create(input, init) as never, context() as never)) as MessageInitShape<O>;
  toBinary(output, create(output, answer));
  return answer;
}

test('regions are registered, shown by name or all together, and forgotten', async () => {
  const calls = createSharedMemoryCalls({ sharedMemory: memory });
  const { key } = createShm(new Uint8Array(10));
  const register = (name: string, offset: bigint, byteSize: bigint) =>
    send(method.systemSharedMemoryRegister, calls.systemSharedMemoryRegister, { name, key, offset, byteSize });
  const status = (name = '') => send(method.systemSharedMemoryStatus, calls.systemSharedMemoryStatus, { name });
  const unregister = (name = '') =>
    send(method.systemSharedMemoryUnregister, calls.systemSharedMemoryUnregister, { name });

  expect(await status()).toEqual({ regions: {} });
  expect(await register('one', 0n, 10n)).toEqual({});
  await register('__proto__', 2n, 8n);
  const proto = { name: '__proto__', key, offset: 2n, byteSize: 8n };
  const all = await status();
  expect(Object.values(all.regions ?? {})).toEqual([{ name: 'one', key, offset: 0n, byteSize: 10n }, proto]);
  expect(Object.values((await status('__proto__')).regions ?? {})).toEqual([proto]);
  await expect(status('two')).rejects.toMatchObject({ code: 'NOT_FOUND' });
  await expect(register('one', 0n, 10n)).rejects.toMatchObject({ code: 'ALREADY_EXISTS' });
  await unregister('one');
  await unregister('one');
  expect(Object.keys((await status()).regions ?? {})).toEqual(['__proto__']);
  await unregister();
  expect(await status()).toEqual({ regions: {} });
});

test.each([
  [0n, 2n ** 63n],
  [2n ** 64n - 1n, 1n],
  [0n, 0n],
  [5n, 6n],
])('a region at %d of %d bytes is refused for an object of ten', async (offset, byteSize) => {
  const calls = createSharedMemoryCalls({ sharedMemory: memory });
  const { key } = createShm(new Uint8Array(10));
  const sent = send(method.systemSharedMemoryRegister, calls.systemSharedMemoryRegister, {
    name: 'one',
    key,
    offset,
    byteSize,
  });
  await expect(sent).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
});

test('CUDA memory cannot be registered, and nothing else of it fails', async () => {
  const calls = createSharedMemoryCalls({ sharedMemory: memory });
  const name = 'one';
  await expect(
    send(method.cudaSharedMemoryRegister, calls.cudaSharedMemoryRegister, { name, byteSize: 4n }),
  ).rejects.toMatchObject({ code: 'UNIMPLEMENTED' });
  expect(await send(method.cudaSharedMemoryStatus, calls.cudaSharedMemoryStatus, {})).toEqual({});
  await expect(send(method.cudaSharedMemoryStatus, calls.cudaSharedMemoryStatus, { name })).rejects.toMatchObject({
    code: 'NOT_FOUND',
  });
  expect(await send(method.cudaSharedMemoryUnregister, calls.cudaSharedMemoryUnregister, { name })).toEqual({});
});

test('where it is switched off, only the status answers', async () => {
  const calls = createSharedMemoryCalls({ sharedMemory: new SharedMemory({ enabled: false, admission }) });
  const register = { name: 'one', key: '/a', byteSize: 1n };
  for (const sent of [
    send(method.systemSharedMemoryRegister, calls.systemSharedMemoryRegister, register),
    send(method.systemSharedMemoryUnregister, calls.systemSharedMemoryUnregister, {}),
    send(method.cudaSharedMemoryUnregister, calls.cudaSharedMemoryUnregister, {}),
  ]) {
    const error: unknown = await sent.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(InferError);
    expect(error).toMatchObject({ code: 'UNIMPLEMENTED' });
  }
  expect(await send(method.systemSharedMemoryStatus, calls.systemSharedMemoryStatus, {})).toEqual({ regions: {} });
});
