import { z } from 'zod';
import { idField, nameField, tierField } from '#src/http/request/fields.ts';
import { ok } from '#src/http/response/answers.ts';
import { type Route, route } from '#src/http/routing/route.ts';
import type { Organization } from './organization.model.ts';
import type { OrganizationService } from './organization.service.ts';

const renameOrganizationBody = z.strictObject({ name: nameField });

export const organizationSchema = z
  .strictObject({ org_id: idField, name: z.string(), tier: tierField, is_org_admin: z.boolean() })
  .meta({ id: 'Organization' });

type OrganizationDto = z.infer<typeof organizationSchema>;

function toOrganizationDto(actor: { isOrgAdmin: boolean }, organization: Organization): OrganizationDto {
  return {
    org_id: organization.id,
    name: organization.name,
    tier: organization.tier,
    is_org_admin: actor.isOrgAdmin,
  };
}

export function organizationRoutes(organizations: OrganizationService): Route[] {
  return [
    route({
      method: 'patch',
      path: '/entity/org',
      operationId: 'renameOrganization',
      tag: 'organization',
      summary: 'Rename the organization and its root folder',
      access: 'organization:administer',
      body: renameOrganizationBody,
      responses: { 200: { description: 'The renamed organization', schema: organizationSchema } },
      handle: async ({ actor, body }) => ok(toOrganizationDto(actor, await organizations.rename(actor, body.name))),
    }),
  ];
}
