const KEPT = ['PATH', 'HOME', 'LANG', 'TMPDIR', 'TZ'];

/** The bare environment of a service that is not ours: a stray `PGPORT` or `TEMPORAL_ADDRESS` must not steer it. */
export function serviceEnvironment(extra: Record<string, string> = {}): Record<string, string> {
  const kept = KEPT.flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value]];
  });
  return { ...Object.fromEntries(kept), ...extra };
}
