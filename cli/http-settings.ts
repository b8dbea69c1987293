import { isLoopback } from '../producer/http/request-origin.ts';
import { DEFAULT_HTTP_SETTINGS, type HttpSettings } from '../producer/http/http-settings.ts';
import type { Settings } from './flags/catalogue.ts';

/** The HTTP server's limits from the command line; what has no option keeps its default. */
export function httpSettingsOf(settings: Settings<'producer'> | Settings<'serve'>): HttpSettings {
  return {
    ...DEFAULT_HTTP_SETTINGS,
    maxBodyBytes: settings.maxRequestBytes,
    maxJsonBytes: Math.min(DEFAULT_HTTP_SETTINGS.maxJsonBytes, settings.maxRequestBytes),
    requestTimeoutMs: settings.requestTimeoutMs,
    drainTimeoutMs: settings.exitTimeoutSecs * 1000,
    maxRequestsInFlight: settings.maxInflightRequests,
    maxBytesInFlight: settings.maxInflightBytes,
    maxOpenJobs: settings.maxOpenJobs,
    poolLimits: {
      requests: settings.maxPoolRequests,
      rows: settings.maxPoolRows,
      bytes: settings.maxPoolBytes,
    },
    strictReadiness: settings.strictReadiness,
    serverId: settings.id,
    allowClientShm: settings.allowClientShm ?? listensOnLoopbackOnly(settings),
  };
}

function listensOnLoopbackOnly(settings: Settings<'producer'> | Settings<'serve'>): boolean {
  return (
    (!settings.allowHttp || isLoopback(settings.httpAddress)) &&
    (!settings.allowGrpc || isLoopback(settings.grpcAddress))
  );
}
