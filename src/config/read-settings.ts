import type { z } from 'zod';
import { ConfigError } from './config-error.ts';

/** Those of the schema; throws {@link ConfigError} for wrong ones, all in one line. */
export function readSettings<Schema extends z.ZodType>(
  schema: Schema,
  env: Record<string, string | undefined>,
): z.output<Schema> {
  // An empty setting is an absent one: `FOO= npm start` should not be an error of its own.
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value !== ''));
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const lines = parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`);
  throw new ConfigError(`wrong setting ${lines.join('; ')}`);
}
