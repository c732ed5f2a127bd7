import { PutObjectCommand } from '@aws-sdk/client-s3';
import type { Agent } from 'undici';
import { createS3Connector } from '#src/adapters/connectors/s3-connector.ts';
import { createGuardedAgent } from '#src/adapters/web/guarded-agent.ts';
import { openBucket, type TestBucket } from '#test/support/s3.ts';
import { type ConnectorCase, itKeepsTheConnectorContract } from '#test/unit/adapters/connectors.contract.ts';

describe('the connector for S3 buckets', () => {
  let bucket: TestBucket;
  let agent: Agent;
  before(async function openIt() {
    bucket = await openBucket(this);
    agent = createGuardedAgent({ allow: [new URL(bucket.settings.endpoint).host] });
  });
  after(() => agent?.close());

  itKeepsTheConnectorContract((): ConnectorCase => {
    const { settings, client } = bucket;
    const prefix = 'shared/files/';
    return {
      connector: createS3Connector({ agent, baseUrl: null }),
      access: () => ({ kind: 'keys', sessionToken: null, forcePathStyle: true, ...settings, prefix }),
      put: async (path, content) => {
        await client.send(new PutObjectCommand({ Bucket: settings.bucket, Key: prefix + path, Body: content }));
      },
    };
  });
});
