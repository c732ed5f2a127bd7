import { expect } from 'chai';
import { type Actor, aclOf, canManage, canRead, type Scope, visibilityOf } from '#src/domain/visibility.ts';

const ada: Actor = { userId: 'ada', orgId: 'acme', isOrgAdmin: false, teamIds: ['law'], teamAdminOf: [] };
const scopes: Record<string, Scope> = {
  personal: { orgId: 'acme', createdBy: 'bob', visibility: 'personal', teamIds: [] },
  team: { orgId: 'acme', createdBy: 'bob', visibility: 'team_level', teamIds: ['law', 'tax'] },
  organization: { orgId: 'acme', createdBy: 'bob', visibility: 'org_level', teamIds: [] },
  root: { orgId: 'acme', createdBy: null, visibility: 'org_level', teamIds: [] },
};

describe('visibility', () => {
  const readers = (actor: Actor) =>
    Object.keys(scopes).filter((name) => {
      const scope = scopes[name];
      return scope !== undefined && canRead(actor, { orgId: scope.orgId, acl: aclOf(scope) });
    });
  const managers = (actor: Actor) =>
    Object.keys(scopes).filter((name) => {
      const scope = scopes[name];
      return scope !== undefined && canManage(actor, scope);
    });

  it('opens to a member what is shared with his team or his organization', () => {
    expect(readers(ada)).to.deep.equal(['team', 'organization', 'root']);
    expect(readers({ ...ada, teamIds: [] })).to.deep.equal(['organization', 'root']);
  });

  it('opens everything to its owner, and nothing to another organization', () => {
    expect(readers({ ...ada, userId: 'bob', teamIds: [] })).to.deep.equal(Object.keys(scopes));
    expect(readers({ ...ada, userId: 'bob', orgId: 'other' })).to.deep.equal([]);
  });

  it('lets an org admin manage what is shared, but not read what is personal', () => {
    const admin = { ...ada, isOrgAdmin: true };
    expect(managers(admin)).to.deep.equal(['team', 'organization', 'root']);
    expect(readers(admin)).not.to.include('personal');
  });

  it('lets a team admin manage what is for his team', () => {
    expect(managers({ ...ada, teamAdminOf: ['tax'] })).to.deep.equal(['team']);
  });

  it('lets an owner manage his own, and nobody in person what has no owner', () => {
    expect(managers({ ...ada, userId: 'bob' })).to.deep.equal(['personal', 'team', 'organization']);
  });

  it('tells from the keys of a row how far it reaches', () => {
    const reach = Object.values(scopes).map((scope) => visibilityOf(aclOf(scope)));
    expect(reach).to.deep.equal(['personal', 'team_level', 'org_level', 'org_level']);
    expect(visibilityOf(['user:ada', 'team:law', 'org:acme'])).to.equal('org_level');
  });
});
