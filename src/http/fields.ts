import { z } from 'zod';

/** An id, in the spelling of the database: it is also compared with others as text. */
export const idField = z.guid().toLowerCase();

export const visibilityField = z.enum(['personal', 'team_level', 'org_level']);

/** A switch of a form, where everything is text (`true`, `yes`, `1` …), or of a JSON body. */
export const switchField = z.union([z.boolean(), z.stringbool()]);

/** A whole number of a query or a form, where everything is text. `Number` alone would take '0x10', ' 5 ' and '' too. */
export function integerField(range: { min: number; max: number }) {
  const parse = (raw: unknown) => (typeof raw === 'string' && /^\d{1,15}$/.test(raw) ? Number(raw) : raw);
  return z.preprocess(parse, z.int({ error: 'must be a whole number' }).min(range.min).max(range.max));
}
