import type { z } from 'zod';

/** Error about invalid settings. The message is one line for the operator and names the settings. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

export function readSettings<Schema extends z.ZodType>(
  schema: Schema,
  env: Record<string, string | undefined>,
): z.output<Schema> {
  // An empty environment variable counts as missing, so that `FOO= npm start` uses the default.
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value !== ''));
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const lines = parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`);
  throw new ConfigError(`wrong setting ${lines.join('; ')}`);
}
