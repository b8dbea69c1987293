import { InferError } from '../../../shared/errors.ts';
import type { GRPCInferenceService } from '../../../shared/proto/generated/grpc_service_pb.ts';
import type { LogValues } from '../../service/log-settings.ts';
import type { Services } from '../../service/services.ts';
import type { TraceValues } from '../../service/trace-settings.ts';
import { assertKnownModel } from '../triton/known-model.ts';
import type { UnaryCalls } from './calls.ts';

type SettingsCalls = Pick<UnaryCalls<typeof GRPCInferenceService>, 'traceSetting' | 'logSettings'>;

/** Trace and log settings. A request changes what it names, and is answered with all. */
export function createSettingsCalls(services: Services): SettingsCalls {
  const { catalog, traceSettings, logSettings } = services;
  return {
    traceSetting: ({ modelName, settings }) => {
      const model = modelName === '' ? undefined : modelName;
      if (model !== undefined) assertKnownModel(catalog, model);
      traceSettings.change(model, new Map(Object.entries(settings).map(([name, { value }]) => [name, value])));
      return { settings: traceAnswer(traceSettings.valuesOf(model)) };
    },
    logSettings: ({ settings }) => {
      logSettings.change(
        new Map(Object.entries(settings).map(([name, { parameterChoice }]) => [name, parameterChoice.value])),
      );
      return { settings: logAnswer(logSettings.values) };
    },
  };
}

function traceAnswer(values: TraceValues): Record<string, { value: string[] }> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]: [string, string | readonly string[]]) => [
      name,
      { value: typeof value === 'string' ? [value] : [...value] },
    ]),
  );
}

function logAnswer(values: LogValues) {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]: [string, unknown]) => [name, { parameterChoice: choiceOf(value) }]),
  );
}

function choiceOf(value: unknown) {
  switch (typeof value) {
    case 'boolean':
      return { case: 'boolParam' as const, value };
    case 'number':
      return { case: 'uint32Param' as const, value };
    case 'string':
      return { case: 'stringParam' as const, value };
    default:
      throw new InferError('INTERNAL', 'a log setting has no gRPC form');
  }
}
