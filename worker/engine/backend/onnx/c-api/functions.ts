/** An address in native memory. */
export type Pointer = bigint;

/** What a function may take where C wants a pointer: an address, or the memory of a Buffer or typed array. */
export type Memory = Pointer | NodeJS.ArrayBufferView | null;

/** null when all went well; otherwise an object that must be read and released exactly once. */
export type Status = Pointer | null;

type Done = (error: Error | null, status: Status) => void;

/** A function that can also run on a thread of libuv's pool. The caller keeps every buffer alive until `done`. */
interface Threaded<Args extends unknown[]> {
  (...args: Args): Status;
  async(...args: [...Args, Done]): void;
}

/** Sets options of a provider by their names. */
type UpdateOptions = (provider: Pointer, keys: readonly string[], values: readonly string[], count: number) => Status;

/** The functions of ONNX Runtime's C API that are used here. `out` is memory for one pointer, size or number. */
export interface OrtFunctions {
  readonly GetErrorCode: (status: Pointer) => number;
  readonly GetErrorMessage: (status: Pointer) => string;
  readonly ReleaseStatus: (status: Pointer) => void;

  readonly CreateEnv: (logLevel: number, id: string, out: Memory) => Status;
  readonly CreateEnvWithGlobalThreadPools: (logLevel: number, id: string, threading: Pointer, out: Memory) => Status;
  readonly CreateThreadingOptions: (out: Memory) => Status;
  readonly ReleaseThreadingOptions: (threading: Pointer) => void;
  readonly SetGlobalIntraOpNumThreads: (threading: Pointer, threads: number) => Status;
  readonly SetGlobalInterOpNumThreads: (threading: Pointer, threads: number) => Status;
  readonly SetGlobalSpinControl: (threading: Pointer, allowSpinning: number) => Status;
  readonly GetAllocatorWithDefaultOptions: (out: Memory) => Status;
  readonly AllocatorFree: (allocator: Pointer, memory: Pointer) => Status;
  readonly CreateCpuMemoryInfo: (allocatorKind: number, memoryKind: number, out: Memory) => Status;

  readonly CreateSessionOptions: (out: Memory) => Status;
  readonly ReleaseSessionOptions: (options: Pointer) => void;
  readonly SetSessionExecutionMode: (options: Pointer, mode: number) => Status;
  readonly SetSessionGraphOptimizationLevel: (options: Pointer, level: number) => Status;
  readonly SetIntraOpNumThreads: (options: Pointer, threads: number) => Status;
  readonly SetInterOpNumThreads: (options: Pointer, threads: number) => Status;
  readonly DisableMemPattern: (options: Pointer) => Status;
  readonly DisableCpuMemArena: (options: Pointer) => Status;
  readonly DisablePerSessionThreads: (options: Pointer) => Status;
  readonly RegisterCustomOpsLibrary_V2: (options: Pointer, path: string) => Status;
  readonly CreateCUDAProviderOptions: (out: Memory) => Status;
  readonly UpdateCUDAProviderOptions: UpdateOptions;
  readonly SessionOptionsAppendExecutionProvider_CUDA_V2: (options: Pointer, cuda: Pointer) => Status;
  readonly ReleaseCUDAProviderOptions: (cuda: Pointer) => void;
  readonly CreateTensorRTProviderOptions: (out: Memory) => Status;
  readonly UpdateTensorRTProviderOptions: UpdateOptions;
  readonly SessionOptionsAppendExecutionProvider_TensorRT_V2: (options: Pointer, tensorRt: Pointer) => Status;
  readonly ReleaseTensorRTProviderOptions: (tensorRt: Pointer) => void;
  readonly AddSessionConfigEntry: (options: Pointer, key: string, value: string) => Status;
  readonly CreateSession: Threaded<[env: Pointer, path: string, options: Pointer, out: Memory]>;
  readonly ReleaseSession: Threaded<[session: Pointer]>;

  readonly SessionGetInputCount: (session: Pointer, out: Memory) => Status;
  readonly SessionGetInputName: (session: Pointer, index: number, allocator: Pointer, out: Memory) => Status;
  readonly SessionGetInputTypeInfo: (session: Pointer, index: number, out: Memory) => Status;
  readonly SessionGetOutputCount: (session: Pointer, out: Memory) => Status;
  readonly SessionGetOutputName: (session: Pointer, index: number, allocator: Pointer, out: Memory) => Status;
  readonly SessionGetOutputTypeInfo: (session: Pointer, index: number, out: Memory) => Status;
  readonly SessionGetOverridableInitializerCount: (session: Pointer, out: Memory) => Status;
  readonly SessionGetOverridableInitializerName: (
    session: Pointer,
    index: number,
    allocator: Pointer,
    out: Memory,
  ) => Status;
  readonly SessionGetOverridableInitializerTypeInfo: (session: Pointer, index: number, out: Memory) => Status;
  readonly GetOnnxTypeFromTypeInfo: (typeInfo: Pointer, out: Memory) => Status;
  readonly CastTypeInfoToTensorInfo: (typeInfo: Pointer, out: Memory) => Status;
  readonly ReleaseTypeInfo: (typeInfo: Pointer) => void;
  readonly GetTensorElementType: (tensorInfo: Pointer, out: Memory) => Status;
  readonly GetDimensionsCount: (tensorInfo: Pointer, out: Memory) => Status;
  readonly GetDimensions: (tensorInfo: Pointer, dims: Memory, count: number) => Status;
  readonly GetSymbolicDimensions: (tensorInfo: Pointer, names: Memory, count: number) => Status;
  readonly ReleaseTensorTypeAndShapeInfo: (tensorInfo: Pointer) => void;

  readonly CreateTensorAsOrtValue: (
    allocator: Pointer,
    shape: Memory,
    rank: number,
    type: number,
    out: Memory,
  ) => Status;
  readonly CreateTensorWithDataAsOrtValue: (
    memoryInfo: Pointer,
    data: Memory,
    byteLength: number,
    shape: Memory,
    rank: number,
    type: number,
    out: Memory,
  ) => Status;
  readonly GetTensorMutableData: (value: Pointer, out: Memory) => Status;
  readonly GetTensorTypeAndShape: (value: Pointer, out: Memory) => Status;
  readonly GetResizedStringTensorElementBuffer: (
    value: Pointer,
    index: number,
    byteLength: number,
    out: Memory,
  ) => Status;
  readonly GetStringTensorDataLength: (value: Pointer, out: Memory) => Status;
  readonly GetStringTensorContent: (
    value: Pointer,
    bytes: Memory,
    byteLength: number,
    offsets: Memory,
    count: number,
  ) => Status;
  readonly ReleaseValue: (value: Pointer) => void;

  readonly CreateRunOptions: (out: Memory) => Status;
  readonly ReleaseRunOptions: (options: Pointer) => void;
  readonly AddRunConfigEntry: (options: Pointer, key: string, value: string) => Status;
  readonly RunOptionsSetTerminate: (options: Pointer) => Status;
  readonly RunOptionsUnsetTerminate: (options: Pointer) => Status;
  readonly Run: Threaded<
    [
      session: Pointer,
      options: Pointer,
      inputNames: Memory,
      inputs: Memory,
      inputCount: number,
      outputNames: Memory,
      outputCount: number,
      outputs: Memory,
    ]
  >;
}

/** Functions of later releases, about which nodes of a session run where. What they give belongs to the session. */
export interface PlacementFunctions {
  readonly Session_GetEpGraphAssignmentInfo: (session: Pointer, parts: Memory, count: Memory) => Status;
  readonly EpAssignedSubgraph_GetEpName: (part: Pointer, out: Memory) => Status;
  readonly EpAssignedSubgraph_GetNodes: (part: Pointer, nodes: Memory, count: Memory) => Status;
  readonly EpAssignedNode_GetName: (node: Pointer, out: Memory) => Status;
  readonly EpAssignedNode_GetOperatorType: (node: Pointer, out: Memory) => Status;
}

/** Where a function stands in the API table, what it returns and what it takes. */
export type Slot = readonly [slot: number, result: string, args: readonly string[]];

const P = 'void *';
const TEXTS = 'const char **';
/** A path is text of the platform's own width. */
const PATH = process.platform === 'win32' ? 'str16' : 'str';

/** Version of the API table that is asked for. The table only grows, so these slots hold for every later release. */
export const API_VERSION = 19;

export const SLOTS: Readonly<Record<keyof OrtFunctions, Slot>> = {
  GetErrorCode: [1, 'int', [P]],
  GetErrorMessage: [2, 'str', [P]],
  CreateEnv: [3, P, ['int', 'str', P]],
  CreateSession: [7, P, [P, PATH, P, P]],
  Run: [9, P, [P, P, P, P, 'size_t', P, 'size_t', P]],
  CreateSessionOptions: [10, P, [P]],
  SetSessionExecutionMode: [13, P, [P, 'int']],
  DisableMemPattern: [17, P, [P]],
  DisableCpuMemArena: [19, P, [P]],
  SetSessionGraphOptimizationLevel: [23, P, [P, 'int']],
  SetIntraOpNumThreads: [24, P, [P, 'int']],
  SetInterOpNumThreads: [25, P, [P, 'int']],
  SessionGetInputCount: [30, P, [P, P]],
  SessionGetOutputCount: [31, P, [P, P]],
  SessionGetOverridableInitializerCount: [32, P, [P, P]],
  SessionGetInputTypeInfo: [33, P, [P, 'size_t', P]],
  SessionGetOutputTypeInfo: [34, P, [P, 'size_t', P]],
  SessionGetOverridableInitializerTypeInfo: [35, P, [P, 'size_t', P]],
  SessionGetInputName: [36, P, [P, 'size_t', P, P]],
  SessionGetOutputName: [37, P, [P, 'size_t', P, P]],
  SessionGetOverridableInitializerName: [38, P, [P, 'size_t', P, P]],
  CreateRunOptions: [39, P, [P]],
  RunOptionsSetTerminate: [46, P, [P]],
  RunOptionsUnsetTerminate: [47, P, [P]],
  CreateTensorAsOrtValue: [48, P, [P, P, 'size_t', 'int', P]],
  CreateTensorWithDataAsOrtValue: [49, P, [P, P, 'size_t', P, 'size_t', 'int', P]],
  GetTensorMutableData: [51, P, [P, P]],
  GetStringTensorDataLength: [53, P, [P, P]],
  GetStringTensorContent: [54, P, [P, P, 'size_t', P, 'size_t']],
  CastTypeInfoToTensorInfo: [55, P, [P, P]],
  GetOnnxTypeFromTypeInfo: [56, P, [P, P]],
  GetTensorElementType: [60, P, [P, P]],
  GetDimensionsCount: [61, P, [P, P]],
  GetDimensions: [62, P, [P, P, 'size_t']],
  GetSymbolicDimensions: [63, P, [P, P, 'size_t']],
  GetTensorTypeAndShape: [65, P, [P, P]],
  CreateCpuMemoryInfo: [69, P, ['int', 'int', P]],
  AllocatorFree: [76, P, [P, P]],
  GetAllocatorWithDefaultOptions: [78, P, [P]],
  ReleaseStatus: [93, 'void', [P]],
  ReleaseSession: [95, 'void', [P]],
  ReleaseValue: [96, 'void', [P]],
  ReleaseRunOptions: [97, 'void', [P]],
  ReleaseTypeInfo: [98, 'void', [P]],
  ReleaseTensorTypeAndShapeInfo: [99, 'void', [P]],
  ReleaseSessionOptions: [100, 'void', [P]],
  CreateEnvWithGlobalThreadPools: [119, P, ['int', 'str', P, P]],
  DisablePerSessionThreads: [120, P, [P]],
  CreateThreadingOptions: [121, P, [P]],
  ReleaseThreadingOptions: [122, 'void', [P]],
  AddSessionConfigEntry: [130, P, [P, 'str', 'str']],
  SetGlobalIntraOpNumThreads: [147, P, [P, 'int']],
  SetGlobalInterOpNumThreads: [148, P, [P, 'int']],
  SetGlobalSpinControl: [149, P, [P, 'int']],
  AddRunConfigEntry: [165, P, [P, 'str', 'str']],
  SessionOptionsAppendExecutionProvider_TensorRT_V2: [170, P, [P, P]],
  CreateTensorRTProviderOptions: [171, P, [P]],
  UpdateTensorRTProviderOptions: [172, P, [P, TEXTS, TEXTS, 'size_t']],
  ReleaseTensorRTProviderOptions: [174, 'void', [P]],
  SessionOptionsAppendExecutionProvider_CUDA_V2: [204, P, [P, P]],
  CreateCUDAProviderOptions: [205, P, [P]],
  UpdateCUDAProviderOptions: [206, P, [P, TEXTS, TEXTS, 'size_t']],
  ReleaseCUDAProviderOptions: [208, 'void', [P]],
  RegisterCustomOpsLibrary_V2: [228, P, [P, PATH]],
  GetResizedStringTensorElementBuffer: [252, P, [P, 'size_t', 'size_t', P]],
};

/** The first version whose table reaches so far. */
export const PLACEMENT_API_VERSION = 24;

export const PLACEMENT_SLOTS: Readonly<Record<keyof PlacementFunctions, Slot>> = {
  Session_GetEpGraphAssignmentInfo: [407, P, [P, P, P]],
  EpAssignedSubgraph_GetEpName: [408, P, [P, P]],
  EpAssignedSubgraph_GetNodes: [409, P, [P, P, P]],
  EpAssignedNode_GetName: [410, P, [P, P]],
  EpAssignedNode_GetOperatorType: [412, P, [P, P]],
};
