import { v7 as uuidv7 } from 'uuid';
import type { Member } from './client.ts';
import type { Stack } from './stack.ts';

/** Stores a connection of the member to a bucket at an address without a server. @returns its id */
export async function storeConnection({ container }: Pick<Stack, 'container'>, member: Member, displayName: string) {
  const { orgId, userId } = member;
  const id = uuidv7();
  const keys = { kind: 'keys', accessKeyId: 'key', secretAccessKey: 'secret', sessionToken: null } as const;
  await container.db('connections').insert({
    ...{ id, orgId, userId, displayName, provider: 'acme_s3', status: 'active', accountId: id, scopes: [] },
    config: { bucket: 'reports', endpoint: 'http://127.0.0.1:1' },
    credentials: container.storedConnections.encrypt({ orgId, id }, keys),
  });
  return id;
}
