import { model } from '#src/adapters/postgres/base-model.ts';
import { text, timestamp, uuid } from '#src/adapters/postgres/shapes.ts';

export class BlobClaimModel extends model('blob_claims', {
  id: uuid(),
  orgId: uuid(),
  blobKey: text(),
  expiresAt: timestamp(),
}) {}
