const KEPT = ['PATH', 'HOME', 'LANG', 'TMPDIR', 'TZ'];

/**
 * The environment of a service: a stray `PGPORT` or `PORT` must not steer it.
 * @param set what it needs to be told
 * @param passedOn names of further settings that are the user's to choose
 */
export function serviceEnvironment(
  set: Record<string, string> = {},
  passedOn: readonly string[] = [],
): Record<string, string> {
  const kept = [...KEPT, ...passedOn].flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value]];
  });
  return { ...Object.fromEntries(kept), ...set };
}
