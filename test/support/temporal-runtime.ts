import pino, { type Logger } from 'pino';
import { installTemporalRuntime } from '#workers/telemetry.ts';

let isInstalled = false;

/** The Temporal SDK allows one runtime per process, so the first test that needs it installs it. */
export function installRuntimeOnce(logger: Logger = pino({ level: process.env.TEST_LOG_LEVEL ?? 'silent' })): void {
  if (!isInstalled) installTemporalRuntime(logger);
  isInstalled = true;
}
