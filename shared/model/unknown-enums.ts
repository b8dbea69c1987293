import { type ReflectMessage, isReflectMessage, reflect } from '@bufbuild/protobuf/reflect';
import { type ModelConfig, ModelConfigSchema } from '../proto/generated/model_config_pb.ts';

/**
 * Enum values written as a number that has no meaning, which the text format lets through: `data_type: 99`. One text each.
 */
export function findUnknownEnums(config: ModelConfig): string[] {
  const problems: string[] = [];
  visit(reflect(ModelConfigSchema, config), '', problems);
  return problems;
}

function visit(message: ReflectMessage, path: string, problems: string[]): void {
  for (const field of message.fields) {
    if (!message.isSet(field)) continue;
    const at = path === '' ? field.name : `${path}.${field.name}`;
    if (field.fieldKind === 'enum') {
      const value = message.get(field);
      if (!field.enum.values.some((known) => known.number === value)) {
        problems.push(`${at}: ${value} has no meaning; known are ${field.enum.values.map((v) => v.name).join(', ')}`);
      }
    } else if (field.fieldKind === 'message') {
      visit(message.get(field), at, problems);
    } else if (field.fieldKind === 'list' && field.listKind === 'message') {
      let index = 0;
      for (const item of message.get(field)) {
        if (isReflectMessage(item)) visit(item, `${at}[${index}]`, problems);
        index++;
      }
    } else if (field.fieldKind === 'map' && field.mapKind === 'message') {
      for (const [key, item] of message.get(field)) {
        if (isReflectMessage(item)) visit(item, `${at}[${String(key)}]`, problems);
      }
    }
  }
}
