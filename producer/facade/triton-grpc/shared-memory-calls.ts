import type { GRPCInferenceService } from '../../../shared/proto/generated/grpc_service_pb.ts';
import type { Services } from '../../service/services.ts';
import { assertNoCudaRegion, refuseCudaRegister, unregisterCuda } from '../triton/cuda-memory.ts';
import { asByteCount } from '../triton/region-parameters.ts';
import type { UnaryCalls } from './calls.ts';

type SharedMemoryCalls = Pick<
  UnaryCalls<typeof GRPCInferenceService>,
  | 'systemSharedMemoryStatus'
  | 'systemSharedMemoryRegister'
  | 'systemSharedMemoryUnregister'
  | 'cudaSharedMemoryStatus'
  | 'cudaSharedMemoryRegister'
  | 'cudaSharedMemoryUnregister'
>;

/** The system and CUDA shared memory extensions. An empty name means all regions. */
export function createSharedMemoryCalls({ sharedMemory }: Pick<Services, 'sharedMemory'>): SharedMemoryCalls {
  return {
    systemSharedMemoryStatus: ({ name }) => {
      const regions = sharedMemory.status(name === '' ? undefined : name).map((region) => {
        const { key, offset, byteLength } = region;
        return [region.name, { name: region.name, key, offset: BigInt(offset), byteSize: BigInt(byteLength) }] as const;
      });
      // fromEntries defines own properties, so that "__proto__" is a name like any other.
      return { regions: Object.fromEntries(regions) };
    },
    systemSharedMemoryRegister: ({ name, key, offset, byteSize }) => {
      const where = `shared memory region ${name}`;
      sharedMemory.register(
        name,
        key,
        asByteCount(`${where}: offset`, offset),
        asByteCount(`${where}: byte_size`, byteSize),
      );
      return {};
    },
    systemSharedMemoryUnregister: ({ name }) => {
      if (name === '') sharedMemory.unregisterAll();
      else sharedMemory.unregister(name);
      return {};
    },
    cudaSharedMemoryStatus: ({ name }) => {
      assertNoCudaRegion(name === '' ? undefined : name);
      return {};
    },
    cudaSharedMemoryRegister: ({ name }) => refuseCudaRegister(sharedMemory, name),
    cudaSharedMemoryUnregister: () => {
      unregisterCuda(sharedMemory);
      return {};
    },
  };
}
