import { tableModel } from '#src/adapters/postgres/base-model.ts';
import { booleanColumn, type SqlRow, textColumn, timestampColumn, uuidColumn } from '#src/adapters/postgres/shapes.ts';
import type { OrganizationTier } from '#src/domain/access/limits.ts';

export class OrganizationModel extends tableModel('organizations', {
  id: uuidColumn(),
  name: textColumn(),
  tier: textColumn<OrganizationTier>(),
  teamAdminsContribute: booleanColumn(),
  createdAt: timestampColumn(),
  updatedAt: timestampColumn(),
  deletedAt: timestampColumn().nullable(),
  eraseDueAt: timestampColumn().nullable(),
}) {}

export type Organization = Pick<SqlRow<typeof OrganizationModel>, 'id' | 'name' | 'tier' | 'teamAdminsContribute'>;

export type OrganizationChange = { name?: string | undefined; teamAdminsContribute?: boolean | undefined };
