import { ConfigError } from './config-error.ts';
import { readSettings } from './read-settings.ts';
import { settings } from './settings.ts';
import type { PayloadKeys } from './temporal-config.ts';

/** Of the process that opens payloads for operators. It needs nothing of the others', and is given nothing of it. */
export type CodecServerConfig = Readonly<{
  host: string;
  port: number;
  payloadKeys: PayloadKeys;
  /** Of Temporal UIs whose pages may ask. */
  uiOrigins: readonly string[];
  /** Null: whoever reaches the port may ask, from this machine alone. */
  token: string | null;
  logLevel: string;
}>;

const own = settings.pick({
  CODEC_HOST: true,
  CODEC_PORT: true,
  CODEC_UI_ORIGINS: true,
  CODEC_TOKEN: true,
  TEMPORAL_CODEC_KEY: true,
  LOG_LEVEL: true,
});

const loopback = /^(localhost|127(\.\d{1,3}){3}|::1)$/;

/** @throws ConfigError for the first wrong settings */
export function loadCodecServerConfig(env: Record<string, string | undefined>): CodecServerConfig {
  const s = readSettings(own, env);
  if (s.TEMPORAL_CODEC_KEY === undefined) throw new ConfigError('wrong setting TEMPORAL_CODEC_KEY: is required');
  if (s.CODEC_TOKEN === undefined && !loopback.test(s.CODEC_HOST)) {
    throw new ConfigError(
      'wrong setting CODEC_TOKEN: required where CODEC_HOST is not an address of this machine alone',
    );
  }
  return {
    host: s.CODEC_HOST,
    port: s.CODEC_PORT,
    payloadKeys: s.TEMPORAL_CODEC_KEY,
    uiOrigins: s.CODEC_UI_ORIGINS,
    token: s.CODEC_TOKEN ?? null,
    logLevel: s.LOG_LEVEL,
  };
}
