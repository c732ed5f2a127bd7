import { randomBytes } from 'node:crypto';
import { CreateBucketCommand, ListMultipartUploadsCommand, ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3';
import { s3GatewayKey } from '../../scripts/launchers/s3-gateway.ts';
import { skip } from './skip.ts';

/** An empty bucket of its own on the S3 server that tests share. */
export type TestBucket = {
  settings: { endpoint: string; region: string; bucket: string; prefix: string } & typeof s3GatewayKey;
  /** The same as the settings of a stack. */
  environment: Record<string, string>;
  client: S3Client;
  /** Keys of objects, and of uploads that are under way. */
  keys(prefix?: string): Promise<string[]>;
};

/**
 * Where the S3 server is; null where there is none.
 * @throws Error in a run that has not asked for one: its tests would be skipped wherever they run
 */
export function s3Endpoint(): string | null {
  const endpoint = process.env.TEST_S3_URL;
  if (endpoint === undefined) {
    throw new Error('The S3 server was not started: add the file to NEEDS_GO of scripts/test.ts.');
  }
  return endpoint || null;
}

/** To be called by a hook of Mocha: where there is no server it says so and skips. */
export async function openBucket(test: Mocha.Context): Promise<TestBucket> {
  const endpoint = s3Endpoint();
  if (endpoint === null) return skip(test, 'no Go');
  return createBucket(endpoint);
}

export async function createBucket(endpoint: string): Promise<TestBucket> {
  const bucket = `test-${randomBytes(6).toString('hex')}`;
  const settings = { endpoint, region: 'us-east-1', bucket, prefix: '', ...s3GatewayKey };
  const client = new S3Client({
    ...{ endpoint, region: settings.region, credentials: s3GatewayKey },
    forcePathStyle: true,
    requestChecksumCalculation: 'WHEN_REQUIRED',
  });
  await client.send(new CreateBucketCommand({ Bucket: bucket }));
  return {
    settings,
    environment: {
      S3_ENDPOINT: endpoint,
      S3_BUCKET: bucket,
      S3_ACCESS_KEY_ID: s3GatewayKey.accessKeyId,
      S3_SECRET_ACCESS_KEY: s3GatewayKey.secretAccessKey,
    },
    client,
    keys: async (prefix = '') => {
      const at = { Bucket: bucket, Prefix: prefix };
      const { Contents = [] } = await client.send(new ListObjectsV2Command(at));
      const { Uploads = [] } = await client.send(new ListMultipartUploadsCommand(at));
      return [...Contents, ...Uploads].map(({ Key = '' }) => Key);
    },
  };
}

/** What `EGRESS_ALLOW` has to name for connections to the server, where there is one. */
export function s3Place(): string[] {
  const url = process.env.TEST_S3_URL;
  return url ? [new URL(url).host] : [];
}
