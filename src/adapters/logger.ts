import { createRequire } from 'node:module';
import { isatty } from 'node:tty';
import pino, { type Logger, type LoggerOptions } from 'pino';
import type pinoPretty from 'pino-pretty';
import { createLogDestination } from './log-destination.ts';

/** Log lines are JSON with an ISO time and the name of their level. On a terminal they are written for people. */
export function createLogger(options: LoggerOptions, fd: number, onLost?: () => void): Logger {
  const format: LoggerOptions = {
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (level) => ({ level }) },
  };
  return pino({ ...format, ...options }, isatty(fd) ? terminal(fd) : createLogDestination(fd, onLost));
}

/** Loaded only for a terminal, because services in production have none. */
function terminal(fd: number): pinoPretty.PrettyStream {
  const pretty: typeof pinoPretty = createRequire(import.meta.url)('pino-pretty');
  return pretty({ destination: fd, sync: true, singleLine: true, ignore: 'role', translateTime: 'SYS:HH:MM:ss' });
}
