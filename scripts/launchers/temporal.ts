import { connect } from 'node:http2';
import { join } from 'node:path';
import type { ChildSpec } from '../supervisor/child-spec.ts';
import { serviceEnvironment } from './service-environment.ts';

const SERVICE = 'temporal.api.workflowservice.v1.WorkflowService';
const SERVING = 1;

// As shipped, the server waits about 50 ms at every hop between tasks and flushes its database file at every write. A
// power cut may cost the last writes: jobs in Postgres are the truth, and are brought in line with what is left.
const TUNING = [
  ...['--dynamic-config-value', 'history.transferProcessorMaxPollRPS=2000'],
  ...['--dynamic-config-value', 'history.timerProcessorMaxPollRPS=2000'],
  ...['--sqlite-pragma', 'journal_mode=wal', '--sqlite-pragma', 'synchronous=normal'],
];

// Who waits for a worker is served by priority and, among equals, organization by organization.
const FAIRNESS = [
  ...['--dynamic-config-value', 'matching.useNewMatcher=true'],
  ...['--dynamic-config-value', 'matching.enableFairness=true'],
  // Fairness holds within one partition of a task queue; an idle partition still costs its pollers and memory.
  ...['--dynamic-config-value', 'matching.numTaskqueueWritePartitions=1'],
  ...['--dynamic-config-value', 'matching.numTaskqueueReadPartitions=1'],
];

/** A worker of the server's own in each namespace: 1.3 MB and a part of a percent of a core. Schedules run in it. */
const WITHOUT_SCHEDULES = ['--dynamic-config-value', 'worker.perNamespaceWorkerCount=0'];

export type TemporalOptions = {
  toolsDir: string;
  dataDir: string;
  port: number;
  uiPort: number;
  /** Of the endpoint that the pages of the UI ask to open payloads. */
  codecPort?: number | null;
  /** Whether schedules run, which can be made in any case. */
  hasSchedules?: boolean;
};

/** The Temporal server with its UI; workflows live in a file of the data folder. */
export function temporalServer(options: TemporalOptions): ChildSpec {
  const { toolsDir, dataDir, port, uiPort, codecPort = null, hasSchedules = true } = options;
  return {
    name: 'temporal',
    command: [
      temporalProgram(toolsDir),
      ...['server', 'start-dev', '--disable-config-file', '--disable-config-env', '--log-level', 'warn'],
      ...['--ip', '127.0.0.1', '--port', String(port), '--ui-port', String(uiPort)],
      ...(codecPort === null ? [] : ['--ui-codec-endpoint', `http://127.0.0.1:${codecPort}`]),
      ...['--namespace', 'default', '--db-filename', join(dataDir, 'temporal.db'), ...TUNING, ...FAIRNESS],
      ...(hasSchedules ? [] : WITHOUT_SCHEDULES),
    ],
    env: serviceEnvironment(),
    stopSignal: 'SIGTERM',
    stopTimeoutMs: 10_000,
    readyTimeoutMs: 60_000,
    isReady: () => isServing(port),
  };
}

/** The server's program is its CLI as well. */
export function temporalProgram(toolsDir: string): string {
  return join(toolsDir, 'bin', 'temporal');
}

/**
 * Asks the standard gRPC health service over bare HTTP/2: a client library would cost the supervisor more time to load
 * than the server takes to start.
 */
function isServing(port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const session = connect(`http://127.0.0.1:${port}`);
    session.on('error', reject).setTimeout(1_000, () => session.destroy(new Error('no answer')));
    const answer: Buffer[] = [];
    const request = session.request({
      ':method': 'POST',
      ':path': '/grpc.health.v1.Health/Check',
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    request.on('error', reject);
    request.on('data', (part: Buffer) => answer.push(part));
    request.on('end', () => {
      session.close();
      // The frame's header (5 bytes), then field 1 of HealthCheckResponse, its status, as a varint.
      resolve(
        Buffer.concat(answer)
          .subarray(5)
          .equals(Buffer.from([0x08, SERVING])),
      );
    });
    request.end(frame(Buffer.concat([Buffer.from([0x0a, SERVICE.length]), Buffer.from(SERVICE)])));
  });
}

/** A gRPC message on the wire: a flag for "not compressed", the length, the bytes. */
function frame(message: Buffer): Buffer {
  const header = Buffer.alloc(5);
  header.writeUInt32BE(message.length, 1);
  return Buffer.concat([header, message]);
}
