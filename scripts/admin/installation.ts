import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { type Config, ConfigError, loadConfig } from '#src/config.ts';
import { applicationEnvironment } from '../application-environment.ts';
import { openSecrets } from '../secrets.ts';
import { readStartSettings } from '../settings.ts';
import { StartFailure } from '../supervisor/start-failure.ts';

/**
 * Loads the settings that the API and the worker of an installation use: those of `npm start` for its data folder if there
 * is one, otherwise those of the environment.
 */
export async function readInstallation(env: Record<string, string | undefined>): Promise<Config> {
  // Turns logs off, because they would mix with the output of the command.
  const user = { LOG_LEVEL: 'silent', ...env };
  const dataDir = resolve(env.DATA_DIR || '.data');
  try {
    if (existsSync(join(dataDir, 'secrets'))) {
      const settings = readStartSettings(env);
      return loadConfig(applicationEnvironment({ user, settings, secrets: await openSecrets(dataDir, env) }), 'admin');
    }
    if (!env.DATABASE_URL) {
      throw new StartFailure(
        `There is no installation in ${dataDir}: set DATA_DIR to its folder, or set the variables of its services, such as DATABASE_URL.`,
      );
    }
    return loadConfig(user, 'admin');
  } catch (error) {
    if (error instanceof ConfigError) throw new StartFailure(error.message);
    throw error;
  }
}
