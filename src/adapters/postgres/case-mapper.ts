const snakeCache = new Map<string, string>();
const camelCache = new Map<string, string>();

function cached(cache: Map<string, string>, word: string, convert: (word: string) => string): string {
  let result = cache.get(word);
  if (result === undefined) {
    result = convert(word);
    cache.set(word, result);
  }
  return result;
}

/** `contentSha256` → `content_sha256`: a digit stays with the word before it. */
export function toSnakeCase(word: string): string {
  return cached(snakeCache, word, (text) => text.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));
}

/** `content_sha256` → `contentSha256`. */
export function toCamelCase(word: string): string {
  return cached(camelCache, word, (text) => text.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase()));
}

function camelCaseRow(row: unknown): unknown {
  if (row === null || typeof row !== 'object') return row;
  return Object.fromEntries(Object.entries(row).map(([key, value]) => [toCamelCase(key), value]));
}

/** Knex plucks before columns are renamed here, and would give as many undefined as there are rows. */
const pluckFault = 'pluck() takes the name of a column as it is in the database: pluck("job_id")';

/** Renames the columns of rows, of one row, or of a raw result's rows; never the keys inside a jsonb value. */
export function camelCaseKeys(result: unknown, context?: { keepsResult?: boolean }): unknown {
  if (context?.keepsResult) return result;
  if (Array.isArray(result)) {
    if (result.length > 0 && result[0] === undefined) throw new Error(pluckFault);
    return result.map(camelCaseRow);
  }
  if (result !== null && typeof result === 'object') {
    if ('rows' in result && Array.isArray(result.rows)) {
      result.rows = result.rows.map(camelCaseRow);
      return result;
    }
    if (result.constructor === Object) return camelCaseRow(result);
  }
  return result;
}
