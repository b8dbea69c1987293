import { type DescField, ScalarType } from '@bufbuild/protobuf';
import { type ReflectMessage, isReflectMessage, reflect } from '@bufbuild/protobuf/reflect';
import { type ModelConfig, ModelConfigSchema } from '../proto/generated/model_config_pb.ts';

/** JSON, except that integers beyond 2^53 are bigint, so that none is rounded. */
export type ConfigJson = string | number | bigint | boolean | null | ConfigJson[] | { [key: string]: ConfigJson };

/**
 * A config in the form in which Triton answers GET …/config: the file's own field names, every scalar and list even when
 * it is empty, messages only when they are set, enums by name, 64-bit integers as numbers.
 */
export function modelConfigToJson(config: ModelConfig): ConfigJson {
  return messageToJson(reflect(ModelConfigSchema, config));
}

/** The same as text. `JSON.stringify` does not do: it refuses bigint. */
export function encodeModelConfigJson(config: ModelConfig): string {
  return encode(modelConfigToJson(config));
}

function messageToJson(message: ReflectMessage): ConfigJson {
  const json: Record<string, ConfigJson> = {};
  for (const field of message.fields) {
    const onlyWhenSet = field.oneof !== undefined || field.fieldKind === 'message';
    if (onlyWhenSet && !message.isSet(field)) continue;
    json[field.name] = fieldToJson(message, field);
  }
  return json;
}

function fieldToJson(message: ReflectMessage, field: DescField): ConfigJson {
  switch (field.fieldKind) {
    case 'message':
      return messageToJson(message.get(field));
    case 'enum':
      return enumToJson(field, message.get(field));
    case 'scalar':
      return scalarToJson(field.scalar, message.get(field));
    case 'list':
      return Array.from(message.get(field), (item) => itemToJson(field, item));
    case 'map': {
      const entries = Array.from(message.get(field), ([key, item]): [string, ConfigJson] => [
        String(key),
        itemToJson(field, item),
      ]);
      return Object.fromEntries(entries);
    }
  }
}

function itemToJson(field: DescField & { fieldKind: 'list' | 'map' }, item: unknown): ConfigJson {
  if (isReflectMessage(item)) return messageToJson(item);
  if (field.enum) return enumToJson(field, item);
  return scalarToJson(field.scalar ?? ScalarType.STRING, item);
}

function enumToJson(field: DescField, value: unknown): ConfigJson {
  return field.enum?.values.find((known) => known.number === value)?.name ?? Number(value);
}

function scalarToJson(type: ScalarType, value: unknown): ConfigJson {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : value;
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value);
  if (typeof value === 'boolean' || typeof value === 'string') return value;
  throw new TypeError(`a config holds no value of type ${ScalarType[type]}`);
}

function encode(json: ConfigJson): string {
  if (typeof json === 'bigint') return json.toString();
  if (Array.isArray(json)) return `[${json.map(encode).join(',')}]`;
  if (typeof json === 'object' && json !== null) {
    const members = Object.entries(json).map(([key, value]) => `${JSON.stringify(key)}:${encode(value)}`);
    return `{${members.join(',')}}`;
  }
  return JSON.stringify(json);
}
