import { EMPTY, json, type Operation, ref } from './operation.ts';
import { ofModel } from './triton-operations.ts';

const TRAFFIC: readonly Operation[] = [
  {
    method: 'get',
    path: '/v2/models/{model}/traffic',
    id: 'traffic',
    tag: 'Versions',
    summary: 'How requests that name no version are spread',
    answer: json(ref('Traffic')),
  },
  {
    method: 'post',
    path: '/v2/models/{model}/traffic',
    id: 'setTraffic',
    tag: 'Versions',
    summary: 'Spread requests over versions',
    description: 'The shares are percents and add up to 100; without any the version policy decides.',
    body: { required: true, content: json(ref('TrafficRequest')) },
    answer: json(ref('Traffic')),
  },
  {
    method: 'delete',
    path: '/v2/models/{model}/traffic',
    id: 'clearTraffic',
    tag: 'Versions',
    summary: 'Back to the rule of the config, or to the version policy',
    answer: json(ref('Traffic')),
  },
];

/** Everything that is about the server rather than a request. */
export const CONTROL_OPERATIONS: readonly Operation[] = [
  {
    method: 'get',
    path: '/v2/models/stats',
    id: 'statistics',
    tag: 'Statistics',
    summary: 'What the requests of all models have come to',
    answer: json(ref('Statistics')),
  },
  ...ofModel({
    method: 'get',
    path: '/stats',
    id: 'modelStatistics',
    tag: 'Statistics',
    summary: 'What the requests of a model have come to',
    answer: json(ref('Statistics')),
  }),
  ...inRepository({
    method: 'post',
    path: '/index',
    id: 'repositoryIndex',
    tag: 'Model repository',
    summary: 'All models with their state',
    body: { required: false, content: json(ref('RepositoryIndexRequest')) },
    answer: json(ref('RepositoryIndex')),
  }),
  ...inRepository({
    method: 'post',
    path: '/models/{model}/load',
    id: 'repositoryLoad',
    tag: 'Model repository',
    summary: 'Load a model',
    body: { required: false, content: json(ref('LoadRequest')) },
    answer: EMPTY,
  }),
  ...inRepository({
    method: 'post',
    path: '/models/{model}/unload',
    id: 'repositoryUnload',
    tag: 'Model repository',
    summary: 'Unload a model',
    body: { required: false, content: json(ref('UnloadRequest')) },
    answer: EMPTY,
  }),
  ...TRAFFIC,
  ...traceSettings('/v2/trace/setting', 'traceSetting', 'of the server'),
  ...traceSettings('/v2/models/{model}/trace/setting', 'modelTraceSetting', 'of a model'),
  {
    method: 'get',
    path: '/v2/logging',
    id: 'logSettings',
    tag: 'Settings',
    summary: 'What is logged',
    answer: json(ref('LogSettings')),
  },
  {
    method: 'post',
    path: '/v2/logging',
    id: 'changeLogSettings',
    tag: 'Settings',
    summary: 'Change what is logged',
    body: { required: true, content: json(ref('LogSettingsRequest')) },
    answer: json(ref('LogSettings')),
  },
  ...regions('system', 'SystemRegionRequest'),
  ...regions('cuda', 'CudaRegionRequest'),
];

function inRepository(operation: Operation): Operation[] {
  return [
    { ...operation, path: `/v2/repository${operation.path}` },
    {
      ...operation,
      path: `/v2/repository/{repository}${operation.path}`,
      id: `${operation.id}ByName`,
      summary: `${operation.summary}, with the name of a repository`,
    },
  ];
}

function traceSettings(path: string, id: string, whose: string): Operation[] {
  return [
    { method: 'get', path, id, tag: 'Settings', summary: `Trace settings ${whose}`, answer: json(ref('TraceSetting')) },
    {
      method: 'post',
      path,
      id: `change${id.charAt(0).toUpperCase()}${id.slice(1)}`,
      tag: 'Settings',
      summary: `Change trace settings ${whose}`,
      body: { required: true, content: json(ref('TraceSettingRequest')) },
      answer: json(ref('TraceSetting')),
    },
  ];
}

function regions(kind: 'system' | 'cuda', request: 'SystemRegionRequest' | 'CudaRegionRequest'): Operation[] {
  const base = `/v2/${kind}sharedmemory`;
  const tag = 'Shared memory';
  const what = kind === 'cuda' ? 'CUDA shared memory' : 'shared memory';
  return [
    {
      method: 'get',
      path: `${base}/status`,
      id: `${kind}Regions`,
      tag,
      summary: `All regions of ${what}`,
      answer: json(ref('Regions')),
    },
    {
      method: 'get',
      path: `${base}/region/{region}/status`,
      id: `${kind}Region`,
      tag,
      summary: `A region of ${what}`,
      answer: json(ref('Regions')),
    },
    {
      method: 'post',
      path: `${base}/region/{region}/register`,
      id: `${kind}Register`,
      tag,
      summary: `Register a region of ${what}`,
      description: 'For programs on the same machine; a web page is refused.',
      body: { required: true, content: json(ref(request)) },
      answer: EMPTY,
    },
    {
      method: 'post',
      path: `${base}/region/{region}/unregister`,
      id: `${kind}Unregister`,
      tag,
      summary: `Forget a region of ${what}`,
      answer: EMPTY,
    },
    {
      method: 'post',
      path: `${base}/unregister`,
      id: `${kind}UnregisterAll`,
      tag,
      summary: `Forget all regions of ${what}`,
      answer: EMPTY,
    },
  ];
}
