import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { type Config, ConfigError, loadConfig } from '#src/config.ts';
import { applicationEnvironment } from '../application-environment.ts';
import { openSecrets } from '../secrets.ts';
import { readStartSettings } from '../settings.ts';
import { StartFailure } from '../supervisor/start-failure.ts';

/**
 * The settings of an installation, as its API and its worker have them: those of `npm start` on the same data folder,
 * or, where that has made none there, those of the environment.
 */
export async function readInstallation(env: Record<string, string | undefined>): Promise<Config> {
  // Silent: the output of a command is its answer.
  const user = { LOG_LEVEL: 'silent', ...env };
  const dataDir = resolve(env.DATA_DIR || '.data');
  try {
    if (existsSync(join(dataDir, 'secrets'))) {
      const settings = readStartSettings(env);
      return loadConfig(applicationEnvironment({ user, settings, secrets: await openSecrets(dataDir, env) }), 'admin');
    }
    if (!env.DATABASE_URL) {
      throw new StartFailure(
        `There is no installation in ${dataDir}: set DATA_DIR to its folder, or what its services have set, like DATABASE_URL.`,
      );
    }
    return loadConfig(user, 'admin');
  } catch (error) {
    if (error instanceof ConfigError) throw new StartFailure(error.message);
    throw error;
  }
}
