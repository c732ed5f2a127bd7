/** Everything the supervisor needs to know to run one process. */
export type ChildSpec = {
  /** Short and unique: names the log file and appears in messages. */
  name: string;
  command: readonly [program: string, ...args: string[]];
  /** The whole environment: nothing is inherited. */
  env: Record<string, string>;
  /** Runs as this user instead of the supervisor's. */
  user?: { uid: number; gid: number };
  /** Asks the process to end in good order; also sent by the kernel when the supervisor dies. */
  stopSignal: 'SIGTERM' | 'SIGINT';
  /** After this the whole process group is killed. */
  stopTimeoutMs: number;
  readyTimeoutMs: number;
  /** Asked again and again until it answers true, and every few seconds from then on; a rejection means "not yet". */
  isReady: () => Promise<boolean>;
  /** Ends it when it has been ready and answers nothing for long: it hangs. Without it that is only told. */
  restartIfSilent?: boolean;
};
