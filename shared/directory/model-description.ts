import { InferError } from '../errors.ts';
import { decodeModelConfig, encodeModelConfig } from '../model/config-binary.ts';
import { labelsKey } from '../model/create-ready-model.ts';
import type { ReadyModel } from '../model/ready-model.ts';
import type { ModelConfig } from '../proto/generated/model_config_pb.ts';
import { isSha256 } from '../wire/names.ts';
import { isCount, isRecord } from '../wire/record.ts';

/** A file of a model folder, by the hash of its content, under which the content is stored once. */
export interface DescribedFile {
  readonly name: string;
  readonly sha256: string;
  readonly byteLength: number;
}

/** All that a producer must know of a model version to call it without having its folder. */
export interface ModelDescription {
  readonly name: string;
  readonly version: string;
  readonly config: ModelConfig;
  /** By `labelsKey` of each output that has some. */
  readonly labels: ReadonlyMap<string, readonly string[]>;
  readonly files: readonly DescribedFile[];
  /** As in ReadyModel. */
  readonly identity?: string | undefined;
}

/** Bigger files stay with the worker: what describes preprocessing is a few MiB at most. */
export const MAX_FILE_BYTES = 64 * 1024 * 1024;

const DESCRIPTION_VERSION = 1;

/** The description as text; equal models give equal texts, so that its hash can be its name. */
export function encodeDescription(model: ReadyModel, files: readonly DescribedFile[]): string {
  const labels: Record<string, readonly string[]> = {};
  model.config.output.forEach((output, index) => {
    const ofOutput = model.outputs[index]?.labels ?? [];
    if (output.labelFilename !== '' || ofOutput.length > 0) labels[labelsKey(output)] = ofOutput;
  });
  return JSON.stringify({
    v: DESCRIPTION_VERSION,
    name: model.name,
    version: model.version,
    config: Buffer.from(encodeModelConfig(model.config)).toString('base64'),
    labels: Object.entries(labels),
    files,
    identity: model.identity,
  });
}

/** @throws InferError INVALID_ARGUMENT for anything that `encodeDescription` does not write. */
export function decodeDescription(text: string): ModelDescription {
  const wire = parseJson(text);
  if (!isRecord(wire) || wire.v !== DESCRIPTION_VERSION || typeof wire.config !== 'string') {
    throw invalid(`it is none of version ${DESCRIPTION_VERSION}`);
  }
  const { name, version, labels, files } = wire;
  if (typeof name !== 'string' || typeof version !== 'string') throw invalid('it has no name or no version');
  if (!Array.isArray(labels) || !labels.every(isLabels) || !Array.isArray(files) || !files.every(isFile)) {
    throw invalid('its labels or files are incomplete');
  }
  const config = decodeModelConfig(Buffer.from(wire.config, 'base64'));
  const identity = isSha256(wire.identity) ? wire.identity : undefined;
  return { name, version, config, labels: new Map(labels), files, identity };
}

function isLabels(wire: unknown): wire is [string, string[]] {
  return (
    Array.isArray(wire) &&
    wire.length === 2 &&
    typeof wire[0] === 'string' &&
    Array.isArray(wire[1]) &&
    wire[1].every((label) => typeof label === 'string')
  );
}

function isFile(wire: unknown): wire is DescribedFile {
  return (
    isRecord(wire) &&
    typeof wire.name === 'string' &&
    isSha256(wire.sha256) &&
    isCount(wire.byteLength) &&
    wire.byteLength <= MAX_FILE_BYTES
  );
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new InferError('INVALID_ARGUMENT', 'broken model description: it is not JSON', { cause });
  }
}

function invalid(what: string): InferError {
  return new InferError('INVALID_ARGUMENT', `broken model description: ${what}`);
}
