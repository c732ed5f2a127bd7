import { expect } from 'chai';
import { folderTreeNodeSchema } from '#src/modules/folders/folders.schema.ts';
import { organizationSchema } from '#src/modules/organization/organization.routes.ts';
import { auditEntries } from '#test/support/audit-entries.ts';
import { badNames, blankNames, eachBad } from '#test/support/bad-fields.ts';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('PATCH /entity/org', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  it('200: renames the organization and its root folder', async () => {
    const { body } = await ada.patch('/entity/org', { name: ' Analytical Engines ' }, 200);
    expect(organizationSchema.parse(body)).to.deep.equal({
      org_id: ada.orgId,
      name: 'Analytical Engines',
      tier: 'free',
      is_org_admin: true,
    });
    expect((await ada.get('/entity/me/membership', 200)).body).to.include({ org_name: 'Analytical Engines' });
    const folders = folderTreeNodeSchema.array().parse((await ada.get('/folders', 200)).body);
    expect(folders.find(({ system_role }) => system_role === 'org_root')?.name).to.equal('Analytical Engines');
    const [entry] = await auditEntries(shared, ada.orgId);
    expect(entry).to.include({ actorId: ada.userId, action: 'organization.renamed' });
  });

  it('401: without a token', async () => {
    await shared.anonymous.patch('/entity/org', { name: 'x' }, 401);
  });

  it('403: for a member who is not an org admin, also with an invalid body', async () => {
    const grace = await aColleague(shared, ada);
    for (const sent of [{ name: 'Mine' }, {}]) {
      expect((await grace.patch('/entity/org', sent, 403)).body).to.include({ code: 'forbidden' });
    }
  });

  it('422: for a missing or blank name', async () => {
    for (const wrong of [{}, { name: 'x', tier: 'max' }, ...eachBad({}, 'name', [...badNames, ...blankNames])]) {
      expect((await ada.patch('/entity/org', wrong, 422)).body).to.include({ code: 'validation_failed' });
    }
  });
});
