import { existsSync } from 'node:fs';
import { join } from 'node:path';
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
  const settings = readStartSettings(env);
  // What it logs has its place in the logs of the services; here somebody reads the answer.
  const user = { LOG_LEVEL: 'silent', ...env };
  const isEmbedded = existsSync(join(settings.dataDir, 'secrets'));
  if (!isEmbedded && settings.postgres.kind === 'embedded') {
    throw new StartFailure(
      `There is no installation in ${settings.dataDir}: set DATA_DIR to its folder, or DATABASE_URL and the others that its services have.`,
    );
  }
  try {
    if (!isEmbedded) return loadConfig(user);
    const secrets = await openSecrets(settings.dataDir, env);
    return loadConfig(applicationEnvironment({ user, settings, secrets }));
  } catch (error) {
    if (error instanceof ConfigError) throw new StartFailure(error.message);
    throw error;
  }
}
