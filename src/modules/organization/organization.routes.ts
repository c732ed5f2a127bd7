import { z } from 'zod';
import { nameField, tierField, uuidField } from '#src/http/request/fields.ts';
import { okAnswer } from '#src/http/response/answers.ts';
import { defineRoute, type HttpRoute } from '#src/http/routing/route.ts';
import type { Organization } from './organization.model.ts';
import type { OrganizationService } from './organization.service.ts';

const renameOrganizationBody = z.strictObject({ name: nameField });

export const organizationSchema = z
  .strictObject({ org_id: uuidField, name: z.string(), tier: tierField, is_org_admin: z.boolean() })
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

export function organizationRoutes(organizations: OrganizationService): HttpRoute[] {
  return [
    defineRoute({
      method: 'patch',
      path: '/entity/org',
      operationId: 'renameOrganization',
      tag: 'organization',
      summary: 'Rename the organization and its root folder',
      access: 'organization:administer',
      body: renameOrganizationBody,
      responses: { 200: { description: 'The renamed organization', schema: organizationSchema } },
      handle: async ({ actor, body }) =>
        okAnswer(toOrganizationDto(actor, await organizations.rename(actor, body.name))),
    }),
  ];
}
