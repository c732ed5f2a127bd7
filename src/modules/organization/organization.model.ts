import { model } from '#src/adapters/postgres/base-model.ts';
import { type Row, text, timestamp, uuid } from '#src/adapters/postgres/shapes.ts';
import type { OrganizationTier } from '#src/domain/access/limits.ts';

export class OrganizationModel extends model('organizations', {
  id: uuid(),
  name: text(),
  tier: text<OrganizationTier>(),
  createdAt: timestamp(),
  updatedAt: timestamp(),
  deletedAt: timestamp().nullable(),
  eraseDueAt: timestamp().nullable(),
}) {}

export type Organization = Pick<Row<typeof OrganizationModel>, 'id' | 'name' | 'tier'>;
