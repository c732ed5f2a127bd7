export type ChildSpec = {
  /** Unique short name of the process, used in the name of its log and in messages. */
  name: string;
  command: readonly [program: string, ...args: string[]];
  /** The complete environment: no variable is inherited. */
  env: Record<string, string>;
  user?: { uid: number; gid: number };
  /** Signal for a graceful stop; the kernel also sends it when the supervisor dies. */
  stopSignal: 'SIGTERM' | 'SIGINT';
  /** Time after the stop signal until SIGKILL is sent to the process group. */
  stopTimeoutMs: number;
  readyTimeoutMs: number;
  /** Readiness probe: polled until it resolves to true, then every few seconds. A rejection means "not ready". */
  isReady: () => Promise<boolean>;
  /** Whether a hanging process, which no longer answers its probe, is restarted. Otherwise it is only logged. */
  restartIfSilent?: boolean;
};
