import { type ModelCommandName, MODEL_COMMAND_FLAGS, MODEL_FLAGS } from '../../flags/model-catalogue.ts';
import { optionLines } from '../../help.ts';

interface CommandText {
  /** What stands behind the command's name. */
  readonly usage: string;
  readonly help: string;
}

export const MODEL_COMMANDS: Readonly<Record<ModelCommandName, CommandText>> = {
  check: {
    usage: '[MODEL…] --model-repository=DIR',
    help: 'load each model as a server would, and list what is wrong with its place and its repair',
  },
  explain: {
    usage: 'MODEL --model-repository=DIR',
    help: 'say in words what a model takes, how its requests are batched, and what was added to its config',
  },
  init: {
    usage: 'FILE.onnx|FOLDER [--name=NAME] [--model-repository=DIR]',
    help: 'make a model folder from an ONNX file or the folder of a Hugging Face export',
  },
  list: { usage: '[--url=URL]', help: 'the models of a running server with their states' },
  load: { usage: 'MODEL [--config=FILE] [--url=URL]', help: 'load or reload a model of a running server' },
  traffic: {
    usage: 'MODEL [VERSION=PERCENT…] [--sticky=NAME] [--shadow=VERSION] [--fallback] [--clear] [--url=URL]',
    help: 'how requests that name no version are spread over the versions of a model; shows, sets or clears it',
  },
  unload: { usage: 'MODEL [--unload-dependents] [--url=URL]', help: 'unload a model of a running server' },
};

/** What `millrace model --help` prints. */
export function modelHelp(): string {
  const rows = Object.entries(MODEL_COMMANDS).map(([name, { help }]) => `  ${name.padEnd(10)} ${help}`);
  return [
    'usage: millrace model COMMAND …',
    '',
    'commands:',
    ...rows,
    '',
    'millrace model COMMAND --help   the options of a command',
    '',
  ].join('\n');
}

/** What `millrace model COMMAND --help` prints. */
export function modelCommandHelp(command: ModelCommandName): string {
  const { usage, help } = MODEL_COMMANDS[command];
  const flags = MODEL_COMMAND_FLAGS[command].map((key) => MODEL_FLAGS[key]);
  return [`usage: millrace model ${command} ${usage}`, '', `  ${help}`, '', 'options:', ...optionLines(flags), ''].join(
    '\n',
  );
}
