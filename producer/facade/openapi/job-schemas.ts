import Type from 'typebox';
import { JOB_STATES, WEBHOOK_STATES } from '../../../shared/jobs/job.ts';

const Count = Type.Integer({ minimum: 0 });
const Time = Type.String({ format: 'date-time' });
const TimeOrNull = Type.Union([Time, Type.Null()]);

export const JobBody = Type.Object({
  id: Type.String(),
  model: Type.String(),
  version: Type.Union([Type.String(), Type.Null()], { description: 'null for the one of the version policy' }),
  state: Type.Enum([...JOB_STATES]),
  position: Type.Union([Count, Type.Null()], {
    description: 'jobs before it in line; null when it does not wait for its turn',
  }),
  priority: Count,
  attempts: Type.Object({ made: Count, max: Count }),
  created_at: Time,
  due_at: Time,
  deadline: Time,
  started_at: TimeOrNull,
  finished_at: TimeOrNull,
  kept_until: TimeOrNull,
  error: Type.Optional(
    Type.Object(
      { code: Type.String(), status: Type.Integer(), message: Type.String() },
      {
        description: 'only of a job that failed, or whose last attempt did',
      },
    ),
  ),
  webhook: Type.Optional(
    Type.Object(
      { state: Type.Enum([...WEBHOOK_STATES]), attempts: Count },
      { description: 'only of a job whose end is told to a URL' },
    ),
  ),
  links: Type.Object({ self: Type.String(), result: Type.String(), events: Type.String() }),
});

export const JobListBody = Type.Object({
  jobs: Type.Array(JobBody),
  cursor: Type.Union([Type.String(), Type.Null()], { description: 'of the next page; null behind the last' }),
});
