import { z } from 'zod';
import { idField, nameField, tierField } from '#src/http/request/fields.ts';
import type { Organization } from './organization.model.ts';

export const renameOrganizationBody = z.strictObject({ name: nameField });

export const organizationSchema = z
  .strictObject({ org_id: idField, name: z.string(), tier: tierField, is_org_admin: z.boolean() })
  .meta({ id: 'Organization' });

export type OrganizationDto = z.infer<typeof organizationSchema>;

export function toOrganizationDto(actor: { isOrgAdmin: boolean }, organization: Organization): OrganizationDto {
  return {
    org_id: organization.id,
    name: organization.name,
    tier: organization.tier,
    is_org_admin: actor.isOrgAdmin,
  };
}
