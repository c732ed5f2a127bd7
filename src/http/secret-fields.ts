import { z } from 'zod';

type Schema = z.core.JSONSchema.BaseSchema;

const jsonSchemas = new WeakMap<z.ZodType, Schema>();

/** What was sent, without the fields that its schema marks as secret: `.meta({ writeOnly: true })`. */
export function withoutSecrets(schema: z.ZodType, sent: unknown): unknown {
  let json = jsonSchemas.get(schema);
  if (json === undefined) {
    json = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any', reused: 'inline' });
    jsonSchemas.set(schema, json);
  }
  return strip(json, json, sent);
}

function strip(root: Schema, schema: Schema, sent: unknown): unknown {
  if (sent === null || typeof sent !== 'object') return sent;
  const alternatives = alternativesOf(root, schema);
  if (Array.isArray(sent)) {
    const items = alternatives.map(({ items }) => items).filter(isSchema);
    return sent.map((item) => strip(root, { anyOf: items }, item));
  }
  const fields = Object.entries(sent).flatMap(([name, value]) => {
    const field = { anyOf: alternatives.map(({ properties }) => properties?.[name]).filter(isSchema) };
    const isSecret = alternativesOf(root, field).some(({ writeOnly }) => writeOnly === true);
    return isSecret ? [] : [[name, strip(root, field, value)]];
  });
  return Object.fromEntries(fields);
}

/** The schema itself and all that it may or must be besides. */
function alternativesOf(root: Schema, schema: Schema): Schema[] {
  const { anyOf = [], oneOf = [], allOf = [], $ref } = schema;
  const target = $ref === undefined ? undefined : root.$defs?.[$ref.replace('#/$defs/', '')];
  const others = [...anyOf, ...oneOf, ...allOf, target].filter(isSchema);
  return [schema, ...others.flatMap((other) => alternativesOf(root, other))];
}

function isSchema(schema: unknown): schema is Schema {
  return typeof schema === 'object' && schema !== null && !Array.isArray(schema);
}
