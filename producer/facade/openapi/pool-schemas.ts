import Type from 'typebox';

const Count = Type.Integer({ minimum: 0 });
const Amount = Type.Number({ minimum: 0 });
const Measured = Type.Union([Amount, Type.Null()]);
const Time = Type.Union([Type.String({ format: 'date-time' }), Type.Null()]);
const SPEED = {
  rows_per_second: Type.Union([Amount, Type.Null()], { description: 'of one worker, from real runs; null before any' }),
  ms_per_row: Measured,
};

const Device = Type.Object({
  kind: Type.Enum(['cpu', 'gpu']),
  name: Type.String(),
  count: Type.Integer({ minimum: 0, description: 'cores of a CPU; 1 for a GPU' }),
  index: Type.Optional(Type.Integer({ minimum: 0, description: 'of a GPU, as the models of the worker count' })),
  uuid: Type.Optional(Type.Union([Type.String(), Type.Null()], { description: 'of a GPU, as nvidia-smi tells it' })),
  memory_total_bytes: Type.Optional(Measured),
  memory_used_bytes: Type.Optional(Measured),
  utilization: Type.Optional(Measured),
});

export const PoolBody = Type.Object({
  desired_workers: Type.Integer({ minimum: 0, description: 'for all models together' }),
  latency_goal_ms: Count,
  max_desired_workers: Count,
  workers: Type.Array(
    Type.Object({
      id: Type.String(),
      name: Type.String({ description: 'host and process' }),
      host: Type.String(),
      pid: Count,
      state: Type.Enum(['ready', 'not_ready', 'draining']),
      reason: Type.String(),
      started: Time,
      devices: Type.Array(Device),
      requests_in_hand: Count,
      load: Type.Number({ minimum: 0, maximum: 1, description: 'part of its time that it works' }),
      loop_delay_ms: Measured,
      last_job: Time,
      models: Type.Array(
        Type.Object({
          name: Type.String(),
          version: Type.String(),
          state: Type.String(),
          reason: Type.String(),
          ...SPEED,
          rows_in_hand: Count,
        }),
      ),
    }),
  ),
  models: Type.Array(
    Type.Object({
      name: Type.String(),
      workers: Count,
      waiting_jobs: Count,
      waiting_rows: Count,
      running_rows: Count,
      ...SPEED,
      desired_workers: Count,
    }),
  ),
});

export const DrainedWorkerBody = Type.Object({
  id: Type.String(),
  name: Type.String(),
  state: Type.Enum(['draining']),
});
