import { readdir, readFile, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { InferError } from '../../../shared/errors.ts';
import { externalDataOf } from './external-data.ts';

/** A file to take over, and its place in the model's folder. */
export interface ExportFile {
  /** Links are resolved. */
  readonly from: string;
  /** Relative, with '/'. */
  readonly to: string;
}

/** What an exporter has left: one ONNX model and the files that describe it. */
export interface ExportedModel {
  /** Suggested by the name of the folder or file. */
  readonly name: string;
  /** The ONNX file, which becomes model.onnx. */
  readonly model: ExportFile;
  /** Weights that lie in files of their own. */
  readonly weights: readonly ExportFile[];
  /** Preprocessing, tokenizer, labels. */
  readonly descriptions: readonly ExportFile[];
}

/** Where the files of the first version lie in a model's folder. */
export const VERSION_FOLDER = '1/';
export const MODEL_FILE = `${VERSION_FOLDER}model.onnx`;

/** Larger ones are not read by a server. */
const MAX_DESCRIPTION_BYTES = 64 * 1024 * 1024;

/**
 * Finds the parts of a model: an ONNX file, or a folder as Hugging Face exporters write it (`model.onnx` or
 * `onnx/model.onnx` with `config.json` and others). A file inside such a folder counts as a choice among its models.
 * @throws InferError NOT_FOUND with what was looked for, INVALID_ARGUMENT for a file that cannot be taken.
 */
export async function findExportedModel(source: string): Promise<ExportedModel> {
  const stats = await stat(source).catch(() => undefined); // not there: said below
  if (!stats) throw new InferError('NOT_FOUND', `${source}: there is no such file or folder`);
  const file = stats.isDirectory() ? await findModelFile(source) : source;
  if (!file.endsWith('.onnx')) {
    throw new InferError('INVALID_ARGUMENT', `${source}: expected an ONNX file (*.onnx) or the folder of an export`);
  }
  const folder = stats.isDirectory() ? source : await exportFolderOf(file);
  return {
    name: suggestName(stats.isDirectory() ? source : file),
    model: { from: await realpath(file), to: MODEL_FILE },
    weights: await findWeights(file),
    descriptions: folder === undefined ? [] : await findDescriptions(folder),
  };
}

async function findModelFile(folder: string): Promise<string> {
  for (const name of ['model.onnx', 'onnx/model.onnx']) {
    if (await isFile(join(folder, name))) return join(folder, name);
  }
  const others: string[] = [];
  for (const inside of ['', 'onnx']) {
    const names = await readdir(join(folder, inside)).catch(() => []); // no folder of that name
    others.push(...names.filter((name) => name.endsWith('.onnx')).map((name) => join(folder, inside, name)));
  }
  const found = others.length === 0 ? 'it has no ONNX file' : `name one of its files: ${others.sort().join(', ')}`;
  throw new InferError('NOT_FOUND', `${folder} has no model.onnx and no onnx/model.onnx; ${found}`);
}

/** The folder of an export that a file lies in: only a config.json makes it one. */
async function exportFolderOf(file: string): Promise<string | undefined> {
  const folder = dirname(file);
  const candidates = basename(resolve(folder)) === 'onnx' ? [folder, dirname(resolve(folder))] : [folder];
  for (const candidate of candidates) if (await isFile(join(candidate, 'config.json'))) return candidate;
  return undefined;
}

function suggestName(source: string): string {
  const path = resolve(source);
  const parts = path.split(/[\\/]/).map((part) => part.replace(/\.onnx$/, ''));
  const name = parts.findLast((part) => !['model', 'onnx', '1', ''].includes(part)) ?? 'model';
  return name.replace(/[^\w.-]/g, '_').replace(/^[.-]+/, '') || 'model';
}

async function findWeights(file: string): Promise<ExportFile[]> {
  const weights: ExportFile[] = [];
  for (const location of externalDataOf(await readFile(file))) {
    if (location.startsWith('/') || /(^|[\\/])\.\.([\\/]|$)/.test(location)) {
      const text = `the model file keeps weights outside of its folder ("${location}"), where no server may read them`;
      throw new InferError('INVALID_ARGUMENT', text);
    }
    const path = join(dirname(file), location);
    if (!(await isFile(path)))
      throw new InferError('NOT_FOUND', `the model file needs its weights in ${path}, which is not there`);
    weights.push({ from: await realpath(path), to: `${VERSION_FOLDER}${location}` });
  }
  return weights;
}

/** What a server reads beside config.pbtxt: `*.json`, labels and vocabularies, and the modules of sentence-transformers. */
async function findDescriptions(folder: string): Promise<ExportFile[]> {
  const found: ExportFile[] = [];
  for (const entry of (await readdir(folder)).sort()) {
    const isDescription = entry.endsWith('.json') && !entry.endsWith('.index.json') && !entry.startsWith('.');
    const isList = /^(labels|vocab|merges)\.txt$/.test(entry);
    const name = /^\d+_\w+$/.test(entry) ? `${entry}/config.json` : isDescription || isList ? entry : undefined;
    if (name === undefined) continue;
    const path = join(folder, name);
    const stats = await stat(path).catch(() => undefined); // a module without a config
    if (stats?.isFile() && stats.size <= MAX_DESCRIPTION_BYTES) found.push({ from: await realpath(path), to: name });
  }
  return found;
}

async function isFile(path: string): Promise<boolean> {
  const stats = await stat(path).catch(() => undefined); // not there
  return stats?.isFile() ?? false;
}
