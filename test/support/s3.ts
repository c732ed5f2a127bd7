import { randomBytes } from 'node:crypto';
import { CreateBucketCommand, ListMultipartUploadsCommand, ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3';
import { s3GatewayKey } from '../../scripts/launchers/s3-gateway.ts';
import { skip } from './skip.ts';

/** An empty bucket of one test, on the S3 server that all tests of a run share. */
export type TestBucket = Awaited<ReturnType<typeof createBucket>>;

/** Hosts that `EGRESS_ALLOW` must list to reach the S3 server. Empty in the everyday run, which starts none. */
export function s3Hosts(): string[] {
  const url = process.env.TEST_S3_URL;
  return url ? [new URL(url).host] : [];
}

/**
 * @returns the URL of the S3 server, or null if Go is not installed
 * @throws Error in a run that did not start the server
 */
export function s3Endpoint(): string | null {
  const endpoint = process.env.TEST_S3_URL;
  if (endpoint === undefined) {
    throw new Error('Only *.system-test.ts files can use the S3 server: rename this test file to x.system-test.ts.');
  }
  return endpoint || null;
}

/** Call it in a Mocha hook or test: skips it if there is no S3 server. */
export async function openBucket(test: Mocha.Context): Promise<TestBucket> {
  const endpoint = s3Endpoint();
  return endpoint === null ? skip(test, 'no Go') : createBucket(endpoint);
}

export async function createBucket(endpoint: string) {
  const bucket = `test-${randomBytes(6).toString('hex')}`;
  const settings = { endpoint, region: 'us-east-1', bucket, prefix: '', ...s3GatewayKey };
  const client = new S3Client({
    endpoint,
    region: settings.region,
    credentials: s3GatewayKey,
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
    keys: async (prefix = ''): Promise<string[]> => {
      const at = { Bucket: bucket, Prefix: prefix };
      const { Contents = [] } = await client.send(new ListObjectsV2Command(at));
      const { Uploads = [] } = await client.send(new ListMultipartUploadsCommand(at));
      return [...Contents, ...Uploads].map(({ Key = '' }) => Key);
    },
  };
}
