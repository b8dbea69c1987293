import Type from 'typebox';

const Count = Type.Integer({ minimum: 0 });
const Duration = Type.Object({ count: Count, ns: Count });

const Share = Type.Number({ minimum: 0 });

const Batching = Type.Object(
  {
    merges: Type.Boolean({ description: 'whether requests share runs' }),
    max_rows: Type.Integer({ minimum: 1, description: 'most rows of a run of several requests' }),
    delay_us: Type.Integer({ minimum: 0, description: 'longest wait for company' }),
    auto: Type.Boolean({ description: 'whether rows and delay are chosen from the curve' }),
    slo_p99_ms: Type.Optional(Share),
    reason: Type.String({ description: 'empty where the config says so' }),
    sizes: Type.Optional(Type.Array(Count, { description: 'rows that a run may have; absent for any' })),
    curve: Type.Array(Type.Object({ rows: Count, ms: Share }), { description: 'times of runs, measured at load' }),
    company: Type.Optional(
      Type.Object(
        { relative: Share, max_abs: Share, cosine: Type.Number(), tolerance: Share },
        { description: 'how far an answer moves with the rows beside it, measured at load' },
      ),
    ),
  },
  { description: 'what becomes of the requests of a model that batches; not over gRPC' },
);

const Padding = Type.Object(
  { elements: Count, padded_elements: Count },
  {
    description: 'rows times length of all runs of a model with padding, and how much of it was padding; not over gRPC',
  },
);

export const StatisticsBody = Type.Object({
  model_stats: Type.Array(
    Type.Object({
      name: Type.String(),
      version: Type.String(),
      last_inference: Type.Integer({ minimum: 0, description: 'milliseconds since 1970; 0 for never' }),
      inference_count: Type.Integer({ minimum: 0, description: 'rows' }),
      execution_count: Type.Integer({ minimum: 0, description: 'runs of the model' }),
      inference_stats: Type.Object({
        success: Duration,
        fail: Duration,
        queue: Duration,
        compute_input: Duration,
        compute_infer: Duration,
        compute_output: Duration,
        cache_hit: Duration,
        cache_miss: Duration,
      }),
      response_stats: Type.Object({}, { additionalProperties: true }),
      batch_stats: Type.Array(
        Type.Object({
          batch_size: Count,
          compute_input: Duration,
          compute_infer: Duration,
          compute_output: Duration,
        }),
      ),
      memory_usage: Type.Array(Type.Object({ type: Type.String(), id: Type.Integer(), byte_size: Count })),
      batching: Type.Optional(Batching),
      padding: Type.Optional(Padding),
    }),
  ),
});

export const TraceSettingBody = Type.Object(
  {
    trace_level: Type.Array(Type.String()),
    trace_rate: Type.String(),
    trace_count: Type.String(),
    log_frequency: Type.String(),
    trace_file: Type.String(),
    trace_mode: Type.String(),
  },
  { additionalProperties: true },
);

const Text = Type.Optional(
  Type.Union([Type.String(), Type.Array(Type.String(), { minItems: 1, maxItems: 1 }), Type.Null()]),
);

export const TraceSettingRequestBody = Type.Object(
  {
    trace_level: Type.Optional(Type.Union([Type.String(), Type.Array(Type.String(), { minItems: 1 }), Type.Null()])),
    trace_rate: Text,
    trace_count: Text,
    log_frequency: Text,
  },
  { additionalProperties: false, description: 'any part of the settings; null goes back to the value above' },
);

export const LogSettingsBody = Type.Object(
  {
    log_file: Type.String(),
    log_info: Type.Boolean(),
    log_warning: Type.Boolean(),
    log_error: Type.Boolean(),
    log_verbose_level: Count,
    log_format: Type.String(),
  },
  { additionalProperties: true },
);

export const LogSettingsRequestBody = Type.Object(
  {
    log_info: Type.Optional(Type.Boolean()),
    log_warning: Type.Optional(Type.Boolean()),
    log_error: Type.Optional(Type.Boolean()),
    log_verbose_level: Type.Optional(Type.Integer({ minimum: 0, maximum: 2 ** 31 - 1 })),
    log_format: Type.Optional(Type.Enum(['default', 'ISO8601'])),
  },
  { additionalProperties: false, description: 'any part of the settings' },
);

export const RegionsBody = Type.Array(
  Type.Object({
    name: Type.String(),
    key: Type.Optional(Type.String()),
    offset: Type.Optional(Count),
    device_id: Type.Optional(Count),
    byte_size: Count,
  }),
);

export const SystemRegionRequestBody = Type.Object({
  key: Type.String({ description: 'as given to shm_open' }),
  offset: Type.Optional(Count),
  byte_size: Count,
});

export const CudaRegionRequestBody = Type.Object({
  raw_handle: Type.Object({ b64: Type.String() }),
  device_id: Count,
  byte_size: Count,
});
