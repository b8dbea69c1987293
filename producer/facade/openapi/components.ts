import type { TSchema } from 'typebox';
import { TaskBody } from '../huggingface/codec.ts';
import { EmbeddingsBody } from '../openai/codec.ts';
import { GenerateRequestBody, GenerateResponseBody, InferRequestBody, InferResponseBody } from './infer-schemas.ts';
import { JobBody, JobListBody } from './job-schemas.ts';
import {
  ErrorBody,
  LoadRequestBody,
  ModelConfigBody,
  ModelMetadataBody,
  RepositoryIndexBody,
  RepositoryIndexRequestBody,
  ServerMetadataBody,
  UnloadRequestBody,
} from './metadata-schemas.ts';
import {
  CudaRegionRequestBody,
  LogSettingsBody,
  LogSettingsRequestBody,
  RegionsBody,
  StatisticsBody,
  SystemRegionRequestBody,
  TraceSettingBody,
  TraceSettingRequestBody,
} from './settings-schemas.ts';
import { DrainedWorkerBody, PoolBody } from './pool-schemas.ts';
import { TrafficBody, TrafficRequestBody } from './traffic-schemas.ts';
import {
  EmbeddingsAnswerBody,
  OpenAiErrorBody,
  OpenAiModelBody,
  OpenAiModelsBody,
  TaskAnswerBody,
  TaskModelBody,
} from './task-schemas.ts';

/** Every body of the API by its name in the document. */
export const SCHEMAS = {
  Error: ErrorBody,
  ServerMetadata: ServerMetadataBody,
  ModelMetadata: ModelMetadataBody,
  ModelConfig: ModelConfigBody,
  InferRequest: InferRequestBody,
  InferResponse: InferResponseBody,
  Job: JobBody,
  JobList: JobListBody,
  GenerateRequest: GenerateRequestBody,
  GenerateResponse: GenerateResponseBody,
  RepositoryIndexRequest: RepositoryIndexRequestBody,
  RepositoryIndex: RepositoryIndexBody,
  LoadRequest: LoadRequestBody,
  UnloadRequest: UnloadRequestBody,
  Statistics: StatisticsBody,
  Pool: PoolBody,
  DrainedWorker: DrainedWorkerBody,
  Traffic: TrafficBody,
  TrafficRequest: TrafficRequestBody,
  TraceSettingRequest: TraceSettingRequestBody,
  TraceSetting: TraceSettingBody,
  LogSettingsRequest: LogSettingsRequestBody,
  LogSettings: LogSettingsBody,
  Regions: RegionsBody,
  SystemRegionRequest: SystemRegionRequestBody,
  CudaRegionRequest: CudaRegionRequestBody,
  TaskRequest: TaskBody,
  TaskAnswer: TaskAnswerBody,
  TaskModel: TaskModelBody,
  EmbeddingsRequest: EmbeddingsBody,
  Embeddings: EmbeddingsAnswerBody,
  OpenAiModel: OpenAiModelBody,
  OpenAiModels: OpenAiModelsBody,
  OpenAiError: OpenAiErrorBody,
} satisfies Record<string, TSchema>;

export type SchemaName = keyof typeof SCHEMAS;
