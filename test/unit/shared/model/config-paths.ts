import { create, type DescField, type DescMessage, ScalarType } from '@bufbuild/protobuf';
import { reflect, type ReflectMessage } from '@bufbuild/protobuf/reflect';
import { type ModelConfig, ModelConfigSchema } from '../../../../shared/proto/generated/model_config_pb.ts';

/** From a config to one of its fields: `instance_group`, `rate_limiter`, `priority`. */
export type ConfigPath = readonly DescField[];

/** Every field of a config that holds a value, whatever messages it lies in, and messages that hold nothing. */
export function everyPath(): ConfigPath[] {
  return pathsIn(ModelConfigSchema, []);
}

export function nameOf(path: ConfigPath): string {
  return path.map((field) => field.name).join('.');
}

/** Sets one field to something that is not its default; lists and maps get one entry. */
export function setField(config: ModelConfig, path: ConfigPath): void {
  setIn(reflect(ModelConfigSchema, config), path);
}

function pathsIn(message: DescMessage, before: ConfigPath): ConfigPath[] {
  if (message.fields.length === 0) return [before];
  return message.fields.flatMap((field) => {
    const path = [...before, field];
    return field.message ? pathsIn(field.message, path) : [path];
  });
}

function setIn(message: ReflectMessage, [field, ...rest]: ConfigPath): void {
  if (!field) return;
  switch (field.fieldKind) {
    case 'scalar':
      message.set(field, sample(field.scalar));
      break;
    case 'enum':
      message.set(field, field.enum.values.at(-1)?.number ?? 0);
      break;
    case 'message': {
      const inner = message.isSet(field) ? message.get(field) : reflect(field.message);
      setIn(inner, rest);
      message.set(field, inner);
      break;
    }
    case 'list': {
      const list = message.get(field);
      list.add(field.listKind === 'message' ? filled(field.message, rest) : elementOf(field));
      break;
    }
    case 'map': {
      const key = field.mapKey === ScalarType.STRING ? 'key' : 1n;
      message.get(field).set(key, field.mapKind === 'message' ? filled(field.message, rest) : elementOf(field));
      break;
    }
  }
}

function filled(schema: DescMessage, rest: ConfigPath): ReflectMessage {
  const message = reflect(schema, create(schema));
  setIn(message, rest);
  return message;
}

function elementOf(field: DescField & { fieldKind: 'list' | 'map' }): string | number | bigint | boolean | Uint8Array {
  if (field.enum) return field.enum.values.at(-1)?.number ?? 0;
  return sample(field.scalar ?? ScalarType.STRING);
}

function sample(type: ScalarType): string | number | bigint | boolean | Uint8Array {
  switch (type) {
    case ScalarType.STRING:
      return 'x';
    case ScalarType.BYTES:
      return new Uint8Array([1]);
    case ScalarType.BOOL:
      return true;
    case ScalarType.INT64:
    case ScalarType.UINT64:
      return 1n;
    default:
      return 1;
  }
}
