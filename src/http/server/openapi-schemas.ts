import { z } from 'zod';

type JsonSchema = z.core.JSONSchema.JSONSchema;
type Direction = 'input' | 'output';

export type JsonSchemas = {
  components: Record<string, unknown>;
  /**
   * Converts a schema to JSON Schema. `io` is the direction (request or response); `owner` is the name prefix of shared
   * parts that have no id.
   */
  convert(schema: z.ZodType, io: Direction, owner: string): JsonSchema;
  /**
   * Like `convert`, but an object without an id becomes a component of this name. A schema that several operations use
   * keeps the name of the first one.
   */
  convertNamed(schema: z.ZodType, io: Direction, name: string): JsonSchema;
  /** Adds a component. Throws if another schema has its name. */
  addComponent(name: string, schema: JsonSchema): JsonSchema;
};

export function createJsonSchemas(): JsonSchemas {
  const components: Record<string, unknown> = {};
  const givenNames = new Map<z.ZodType, string>();

  function addComponent(name: string, schema: unknown): JsonSchema {
    const existing = components[name];
    if (existing !== undefined && JSON.stringify(existing) !== JSON.stringify(schema)) {
      throw new Error(`two different schemas have the same id: ${name}`);
    }
    components[name] = schema;
    return { $ref: `#/components/schemas/${name}` };
  }

  function convert(schema: z.ZodType, io: Direction, owner: string): JsonSchema {
    const {
      $schema: _,
      $defs = {},
      ...root
    } = z.toJSONSchema(schema, { io, unrepresentable: 'any', override: complete });
    const nameOf = (name: string) => (name.startsWith('__') ? `${owner}${name.replace('__schema', 'Part')}` : name);
    const id = typeof root.id === 'string' ? root.id : undefined;
    const translate = (value: unknown) => translateForGenerators(value, nameOf, $defs);
    for (const [name, part] of Object.entries($defs)) addComponent(nameOf(name), translate(withoutId(part)));
    if (id === undefined) return Object(translate(root));
    return addComponent(id, translate(withoutId(root)));
  }

  return {
    components,
    convert,
    convertNamed(schema, io, name) {
      const json = convert(schema, io, name);
      if (json.type !== 'object' || json.properties === undefined) return json;
      const givenName = givenNames.get(schema) ?? name;
      givenNames.set(schema, givenName);
      return addComponent(givenName, json);
    },
    addComponent,
  };
}

function withoutId(schema: JsonSchema): JsonSchema {
  const { id: _, ...rest } = schema;
  return rest;
}

/** Adds what zod leaves out: defaults of fields that are read from text, and discriminators. */
function complete({ zodSchema, jsonSchema }: { zodSchema: z.core.$ZodTypes; jsonSchema: JsonSchema }): void {
  const { def } = zodSchema._zod;
  if (def.type === 'default' && typeof def.defaultValue !== 'object') {
    jsonSchema.default = def.defaultValue as string | number | boolean;
  }
  if (def.type === 'union' && 'discriminator' in def && typeof def.discriminator === 'string') {
    jsonSchema.discriminator = { propertyName: def.discriminator };
  }
}

/**
 * Renames references, and writes a schema in the form that generators of clients understand: unions are flat, and
 * alternatives of an object are a condition, because generators take `oneOf` and `anyOf` for unions of types.
 */
function translateForGenerators(
  value: unknown,
  nameOf: (name: string) => string,
  definitions: Record<string, JsonSchema>,
): unknown {
  if (Array.isArray(value)) return value.map((item) => translateForGenerators(item, nameOf, definitions));
  if (value === null || typeof value !== 'object') return value;
  const entries = Object.entries(value).map(([key, item]) => {
    const name = key === '$ref' ? nameOfReference(item) : undefined;
    if (name !== undefined) return [key, `#/components/schemas/${nameOf(name)}`];
    if (key === 'discriminator') return [key, mapDiscriminator(item, Object(value).oneOf, nameOf, definitions)];
    return [key, translateForGenerators(item, nameOf, definitions)];
  });
  return withAlternativesAsCondition(withFlatUnion(Object.fromEntries(entries)));
}

const nameOfReference = (reference: unknown): string | undefined =>
  typeof reference === 'string' ? /^#\/\$defs\/(.+)$/.exec(reference)?.[1] : undefined;

function mapDiscriminator(
  discriminator: { propertyName: string },
  options: readonly JsonSchema[],
  nameOf: (name: string) => string,
  definitions: Record<string, JsonSchema>,
) {
  const mapping = options.flatMap(({ $ref }) => {
    const name = nameOfReference($ref);
    if (name === undefined) return [];
    const property = Object(definitions[name]?.properties?.[discriminator.propertyName]);
    return [[property.const, `#/components/schemas/${nameOf(name)}`]];
  });
  return { ...discriminator, mapping: Object.fromEntries(mapping) };
}

function withFlatUnion(schema: JsonSchema): JsonSchema {
  if (schema.anyOf === undefined) return schema;
  const isOnlyUnion = (part: JsonSchema) => part.anyOf !== undefined && Object.keys(part).length === 1;
  return { ...schema, anyOf: schema.anyOf.flatMap((part) => (isOnlyUnion(part) ? (part.anyOf ?? []) : [part])) };
}

function withAlternativesAsCondition(schema: JsonSchema): JsonSchema {
  const { oneOf, anyOf, ...rest } = schema;
  if (rest.properties === undefined || (oneOf === undefined && anyOf === undefined)) return schema;
  return { ...rest, if: { ...(oneOf && { oneOf }), ...(anyOf && { anyOf }) }, else: false };
}
