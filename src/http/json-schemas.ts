import { z } from 'zod';

export type JsonSchema = z.core.JSONSchema.JSONSchema;

/** Turns zod schemas into JSON Schema whose shared parts stand under `components.schemas`. */
export type JsonSchemas = {
  components: Record<string, unknown>;
  /** `input` is what a client may send, `output` what it gets. `owner` tells nameless shared parts apart. */
  convert(schema: z.ZodType, io: 'input' | 'output', owner: string): JsonSchema;
};

export function createJsonSchemas(): JsonSchemas {
  const components: Record<string, unknown> = {};

  function addComponent(name: string, schema: unknown): void {
    const existing = components[name];
    if (existing !== undefined && JSON.stringify(existing) !== JSON.stringify(schema)) {
      throw new Error(`two different schemas have the id ${name}`);
    }
    components[name] = schema;
  }

  return {
    components,
    convert(schema, io, owner) {
      const { $schema: _, $defs = {}, ...root } = z.toJSONSchema(schema, { io, unrepresentable: 'any' });
      const nameOf = (name: string) => (name.startsWith('__') ? `${owner}${name.replace('__schema', 'Part')}` : name);
      const relink = (value: unknown): unknown => {
        if (Array.isArray(value)) return value.map(relink);
        if (value === null || typeof value !== 'object') return value;
        return Object.fromEntries(
          Object.entries(value).map(([key, item]) => {
            const name = key === '$ref' && typeof item === 'string' ? /^#\/\$defs\/(.+)$/.exec(item)?.[1] : undefined;
            return [key, name === undefined ? relink(item) : `#/components/schemas/${nameOf(name)}`];
          }),
        );
      };
      // A schema with an id of its own is a component too, not only a part of others.
      const id = typeof root.id === 'string' ? root.id : undefined;
      for (const [name, part] of Object.entries($defs)) addComponent(nameOf(name), relink(withoutId(part)));
      if (id === undefined) return Object(relink(root));
      addComponent(id, relink(withoutId(root)));
      return { $ref: `#/components/schemas/${id}` };
    },
  };
}

/** `id` is zod's word for the name; in JSON Schema it has no meaning. */
function withoutId(schema: JsonSchema): JsonSchema {
  const { id: _, ...rest } = schema;
  return rest;
}
