import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { ChildSpec } from '../supervisor/child-spec.ts';
import { serviceEnvironment } from './service-environment.ts';

export type S3GatewayOptions = { program: string; dataDir: string; port: number };

/** Credentials of the S3 server for tests. They are no secret, because test data is deleted. */
export const s3GatewayKey = { accessKeyId: 'test', secretAccessKey: 'test-secret-of-nothing' };

/** An S3 server for tests: every subfolder of its data folder is a bucket. */
export async function s3Gateway({ program, dataDir, port }: S3GatewayOptions): Promise<ChildSpec> {
  const [buckets, accounts] = [join(dataDir, 's3', 'buckets'), join(dataDir, 's3', 'accounts')];
  for (const folder of [buckets, accounts]) await mkdir(folder, { recursive: true });
  const { accessKeyId, secretAccessKey } = s3GatewayKey;
  return {
    name: 's3',
    command: [
      program,
      '--port',
      `127.0.0.1:${port}`,
      '--quiet',
      '--keep-alive',
      '--iam-dir',
      accounts,
      'posix',
      buckets,
    ],
    env: serviceEnvironment({ ROOT_ACCESS_KEY_ID: accessKeyId, ROOT_SECRET_ACCESS_KEY: secretAccessKey }),
    stopSignal: 'SIGTERM',
    stopTimeoutMs: 5_000,
    readyTimeoutMs: 10_000,
    isReady: async () => {
      const response = await fetch(s3GatewayUrl(port));
      await response.body?.cancel();
      // The S3 server answers a request without credentials with 403 once it is up.
      return response.status === 403;
    },
    restartIfSilent: true,
  };
}

export function s3GatewayUrl(port: number): string {
  return `http://127.0.0.1:${port}`;
}
