import { newestWheel, TARGET, wheelVersion } from './pip.ts';

/** One package of the Python index; nothing of Python in it is used. */
export interface GpuPackage {
  readonly name: string;
  /** Which versions fit, in pip's words. */
  readonly versions: string;
  /** Of the wheel and of what is unpacked of it, in MB, as they were on 29 November 2026. */
  readonly downloadMb: number;
  readonly unpackedMb: number;
}

/** The provider, of exactly the version that the core has. */
export function providerPackage(version: string): GpuPackage {
  return { name: 'onnxruntime-gpu', versions: `==${version}`, downloadMb: 247, unpackedMb: 272 };
}

/** NVIDIA's own. The compiler is for those engines of cuDNN that it makes at run time. */
const NVIDIA_PACKAGES: readonly GpuPackage[] = [
  { name: 'nvidia-cuda-runtime', versions: '==13.*', downloadMb: 3, unpackedMb: 1 },
  { name: 'nvidia-cublas', versions: '==13.*', downloadMb: 444, unpackedMb: 609 },
  { name: 'nvidia-curand', versions: '==10.*', downloadMb: 77, unpackedMb: 105 },
  { name: 'nvidia-cudnn-cu13', versions: '==9.*', downloadMb: 517, unpackedMb: 940 },
  { name: 'nvidia-cuda-nvrtc', versions: '==13.*', downloadMb: 58, unpackedMb: 149 },
];

export function packagesFor(version: string, providerOnly: boolean): GpuPackage[] {
  return [providerPackage(version), ...(providerOnly ? [] : NVIDIA_PACKAGES)];
}

/** Whether a package that is there, as `nvidia-cublas==13.1`, is what is wanted. */
export function fits({ name, versions }: GpuPackage, label: string): boolean {
  const wanted = `${name}${versions}`;
  return wanted.endsWith('*') ? label.startsWith(wanted.slice(0, -1)) : label === wanted;
}

/** Of the names in a folder: the newest wheel of a package that fits. */
export function wheelFor(wanted: GpuPackage, files: readonly string[]): string | undefined {
  const start = `${wanted.name.replaceAll('-', '_')}-`;
  const named = files.filter((file) => file.startsWith(start) && /x86_64\.whl$/.test(file));
  return newestWheel(named.filter((file) => fits(wanted, `${wanted.name}==${wheelVersion(file)}`)));
}

/** At the most: wheels are removed when all of them are unpacked. */
export function neededRoomMb(packages: readonly GpuPackage[], haveWheels: boolean): number {
  const each = packages.map(({ downloadMb, unpackedMb }) => unpackedMb + (haveWheels ? 0 : downloadMb));
  return sum(each);
}

/** For a machine that reaches an index, whatever its own system is. */
export function pipCommand(packages: readonly GpuPackage[]): string {
  const specs = packages.map(({ name, versions }) => `'${name}${versions}'`);
  return ['python3 -m pip download --dest=DIR', ...TARGET, ...specs].join(' ');
}

/** What is asked about before anything is fetched. */
export function planText(packages: readonly GpuPackage[], folder: string, from: string | undefined): string {
  const width = Math.max(...packages.map(({ name }) => name.length));
  const rows = packages.map(({ name, versions, downloadMb, unpackedMb }) => {
    const sizes = `about ${String(downloadMb).padStart(4)} MB, unpacked ${String(unpackedMb).padStart(4)} MB`;
    return `  ${name.padEnd(width)}  ${versions.padEnd(9)} ${sizes}`;
  });
  const download = sum(packages.map(({ downloadMb }) => downloadMb));
  const unpacked = sum(packages.map(({ unpackedMb }) => unpackedMb));
  const source = from === undefined ? 'with pip from its index' : `from ${from}`;
  const total = `in all about ${download} MB to fetch and ${unpacked} MB to keep; up to ${download + unpacked} MB at once`;
  return [`GPU support for ${folder}, ${source}:`, ...rows, `  ${total}`, ''].join('\n');
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
