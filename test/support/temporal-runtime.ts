import pino, { type Logger } from 'pino';
import { installRuntime } from '#workers/runtime.ts';

let isInstalled = false;

/** The library allows one runtime a process, whoever of the tests comes first. */
export function installRuntimeOnce(logger: Logger = pino({ level: process.env.TEST_LOG_LEVEL ?? 'silent' })): void {
  if (!isInstalled) installRuntime(logger);
  isInstalled = true;
}
