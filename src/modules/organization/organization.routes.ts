import { z } from 'zod';
import { nameField, tierField, uuidField } from '#src/http/request/fields.ts';
import { okAnswer } from '#src/http/response/answers.ts';
import { defineRoute, type HttpRoute } from '#src/http/routing/route.ts';
import type { Organization } from './organization.model.ts';
import type { OrganizationService } from './organization.service.ts';

const changeOrganizationBody = z
  .strictObject({
    name: nameField.optional(),
    team_admins_contribute: z
      .boolean()
      .optional()
      .describe('Whether admins of teams may add documents and folders to the folder tree of the organization.'),
  })
  .refine((body) => Object.keys(body).length > 0, {
    error: 'Send name or team_admins_contribute',
    params: { code: 'required' },
  })
  .meta({ minProperties: 1 })
  .transform((body) => ({ name: body.name, teamAdminsContribute: body.team_admins_contribute }));

export const organizationSchema = z
  .strictObject({
    org_id: uuidField,
    name: z.string(),
    tier: tierField,
    is_org_admin: z.boolean(),
    team_admins_contribute: z.boolean(),
  })
  .meta({ id: 'Organization' });

type OrganizationDto = z.infer<typeof organizationSchema>;

function toOrganizationDto(actor: { isOrgAdmin: boolean }, organization: Organization): OrganizationDto {
  return {
    org_id: organization.id,
    name: organization.name,
    tier: organization.tier,
    is_org_admin: actor.isOrgAdmin,
    team_admins_contribute: organization.teamAdminsContribute,
  };
}

export function organizationRoutes(organizations: OrganizationService): HttpRoute[] {
  return [
    defineRoute({
      method: 'patch',
      path: '/entity/org',
      operationId: 'renameOrganization',
      tag: 'organization',
      summary: 'Rename the organization with its root folder, or let team admins add to its folder tree',
      access: 'organization:administer',
      body: changeOrganizationBody,
      responses: { 200: { description: 'The changed organization', schema: organizationSchema } },
      handle: async ({ actor, body }) => okAnswer(toOrganizationDto(actor, await organizations.change(actor, body))),
    }),
  ];
}
