const KEPT = ['PATH', 'HOME', 'LANG', 'TMPDIR', 'TZ'];

/**
 * The environment of a service. Other variables such as `PGPORT` or `PORT` are not inherited.
 * @param set variables to set
 * @param passedOn names of further variables to inherit
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
