import { copyFile, link, mkdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { InferError } from '../../../shared/errors.ts';
import { completeModelConfig } from '../../../shared/model/complete-config.ts';
import { encodeModelConfigText } from '../../../shared/model/config-text.ts';
import { type ModelConfig, ModelConfigSchema } from '../../../shared/proto/generated/model_config_pb.ts';
import { createCApiBackend } from '../../../worker/engine/backend/onnx/c-api/c-api-backend.ts';
import { loadOptionsOf } from '../../../worker/engine/repository/load-options.ts';
import type { ModelSettings } from '../../flags/model-catalogue.ts';
import { type ExportFile, findExportedModel, MODEL_FILE, VERSION_FOLDER } from './export-folder.ts';
import type { Output } from '../output.ts';

/** `millrace model init`: makes a model folder from what an exporter wrote. Nothing is overwritten. */
export async function init(settings: ModelSettings<'init'>, source: string, output: Output): Promise<number> {
  const exported = await findExportedModel(source);
  const name = settings.name ?? exported.name;
  assertName(name);
  const repository = settings.targetRepository;
  const folder = join(repository, name);
  await assertFree(folder);
  const files = [exported.model, ...exported.weights, ...exported.descriptions];
  const leftOut = await writeFolder(folder, files, settings.link);
  const next = `millrace model check ${name} --model-repository=${repository}`;
  if (output.json) {
    output.value({
      ok: true,
      model: name,
      folder,
      files: ['config.pbtxt', ...files.map(({ to }) => to)],
      leftOut,
      next,
    });
    return 0;
  }
  output.line(`wrote ${folder}`);
  output.line('  config.pbtxt');
  const weights = new Set([exported.model, ...exported.weights]);
  for (const file of files) output.line(`  ${file.to}${settings.link && weights.has(file) ? '  (hard link)' : ''}`);
  for (const text of leftOut) output.line(`${output.paint('yellow', 'left out')} ${text}`);
  output.line('');
  output.line(`next: ${next}`);
  return 0;
}

/** A name ends up in paths and in URLs. */
function assertName(name: string): void {
  if (/^\w[\w.-]*$/.test(name)) return;
  const expected = 'expected letters, digits, "_", "-" and ".", beginning with none of the last two';
  throw new InferError('INVALID_ARGUMENT', `--name: ${expected}, got "${name}"`);
}

async function assertFree(folder: string): Promise<void> {
  const stats = await stat(folder).catch(() => undefined); // not there, which is right
  if (!stats) return;
  throw new InferError('ALREADY_EXISTS', `${folder} is there already; choose another name with --name, or remove it`);
}

/**
 * Writes the folder beside its place and moves it there when it is complete, so that a server that follows the repository
 * never sees a part. Returns what the config leaves out.
 */
async function writeFolder(folder: string, files: readonly ExportFile[], hardLink: boolean): Promise<string[]> {
  const partial = join(dirname(folder), `.${process.pid}.partial`);
  try {
    await mkdir(partial, { recursive: true });
    for (const { from, to } of files) {
      await mkdir(dirname(join(partial, to)), { recursive: true });
      if (hardLink && to.startsWith(VERSION_FOLDER)) await linkFile(from, join(partial, to));
      else await copyFile(from, join(partial, to));
    }
    const { config, leftOut } = await configFor(join(partial, MODEL_FILE));
    await writeFile(join(partial, 'config.pbtxt'), configText(config));
    await rename(partial, folder);
    return leftOut;
  } catch (error) {
    await rm(partial, { recursive: true, force: true });
    if (error instanceof InferError) throw error;
    const reason = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    throw new InferError('UNAVAILABLE', `${folder} cannot be written: ${reason}`, { cause: error });
  }
}

async function linkFile(from: string, to: string): Promise<void> {
  try {
    await link(from, to);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code !== 'EXDEV') throw error;
    const text = '--link: the file lies on another file system than the repository; leave --link out to copy it';
    throw new InferError('INVALID_ARGUMENT', text, { cause: error });
  }
}

/** The config that a server would make for the file itself, without what the protocol cannot carry. */
async function configFor(path: string): Promise<{ config: ModelConfig; leftOut: string[] }> {
  const written = create(ModelConfigSchema, { platform: 'onnxruntime_onnx' });
  const loaded = await createCApiBackend().load(await loadOptionsOf(written, dirname(path), resolve(path)));
  try {
    const outputs = loaded.outputs.filter(({ datatype }) => datatype !== undefined);
    const leftOut = loaded.outputs
      .filter(({ datatype }) => datatype === undefined)
      .map(({ name, typeName }) => `output "${name}": the protocol cannot carry its type ${typeName}`);
    return { config: completeModelConfig(written, { ...loaded, outputs }), leftOut };
  } finally {
    await loaded.close();
  }
}

function configText(config: ModelConfig): string {
  const comment =
    config.maxBatchSize > 0
      ? 'Rows of a request and of a run at most. The dims below are those of one row.'
      : 'max_batch_size is not set: the model has no free first dimension, so requests are not merged.';
  const lines = encodeModelConfigText(config).split('\n');
  const at = config.maxBatchSize > 0 ? lines.findIndex((line) => line.startsWith('max_batch_size')) : 1;
  return lines.toSpliced(at, 0, `# ${comment}`).join('\n');
}
