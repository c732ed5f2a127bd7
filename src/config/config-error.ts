/** A wrong setting, in one line that names it. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}
