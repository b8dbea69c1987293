import { GPU_COMMAND_FLAGS, GPU_FLAGS, type GpuCommandName } from '../../flags/gpu-catalogue.ts';
import { optionLines } from '../../help.ts';

export const GPU_COMMANDS: Readonly<Record<GpuCommandName, { readonly usage: string; readonly help: string }>> = {
  install: {
    usage: '[--dir=DIR] [--yes] [--dry-run] [--from=DIR] [--provider-only]',
    help: 'fetch ONNX Runtime’s CUDA provider and NVIDIA’s libraries with pip, into a folder of their own',
  },
  check: {
    usage: '[--dir=DIR] [--json]',
    help: 'go the way to a run on the GPU step by step, and say what is missing and which command repairs it',
  },
};

/** What `millrace gpu --help` prints. */
export function gpuHelp(): string {
  const rows = Object.entries(GPU_COMMANDS).map(([name, { help }]) => `  ${name.padEnd(10)} ${help}`);
  const end = 'millrace gpu COMMAND --help   the options of a command';
  return ['usage: millrace gpu COMMAND …', '', 'commands:', ...rows, '', end, ''].join('\n');
}

/** What `millrace gpu COMMAND --help` prints. */
export function gpuCommandHelp(command: GpuCommandName): string {
  const { usage, help } = GPU_COMMANDS[command];
  const flags = GPU_COMMAND_FLAGS[command].map((key) => GPU_FLAGS[key]);
  return [`usage: millrace gpu ${command} ${usage}`, '', `  ${help}`, '', 'options:', ...optionLines(flags), ''].join(
    '\n',
  );
}
