import {
  type Health,
  HealthCheckResponse_ServingStatus as Serving,
} from '../../../shared/proto/generated/health_pb.ts';
import type { Services } from '../../service/services.ts';
import type { UnaryCalls } from './calls.ts';

/** The health check of gRPC itself, for probes that know no Triton. It tells of the server, whatever service is named. */
export function createHealthCalls({ serverReady }: Pick<Services, 'serverReady'>): UnaryCalls<typeof Health> {
  return {
    check: () => ({ status: serverReady() ? Serving.SERVING : Serving.NOT_SERVING }),
  };
}
