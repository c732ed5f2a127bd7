import { expect } from 'chai';
import { mayPerformAction } from '#src/domain/access/policy.ts';
import type { Actor } from '#src/domain/access/visibility.ts';

const actor = (over: Partial<Actor> = {}): Actor => ({
  userId: 'ada',
  orgId: 'acme',
  isOrgAdmin: false,
  teamIds: over.teamAdminOf ?? [],
  teamAdminOf: [],
  openTeamIds: over.teamAdminOf ?? [],
  ...over,
});
const member = actor();
const orgAdmin = actor({ isOrgAdmin: true });
const redAdmin = actor({ teamAdminOf: ['red'] });
const stranger = actor({
  orgId: 'other',
  isOrgAdmin: true,
  teamIds: ['red'],
  teamAdminOf: ['red'],
  openTeamIds: ['red'],
});

describe('mayPerformAction', () => {
  it('lets only org admins administer the organization', () => {
    const asked = [member, orgAdmin, redAdmin, stranger].map((who) =>
      mayPerformAction(who, 'organization:administer', { orgId: 'acme' }),
    );
    expect(asked).deep.equal([false, true, false, false]);
  });

  const inTeam = (teamId: string, isEntrusted = true) => ({ teamId, isEntrusted });
  const users = {
    'in no team': { isOrgAdmin: false, teams: [] },
    'in the red team': { isOrgAdmin: false, teams: [inTeam('red')] },
    'whom an admin of the red team has taken in': { isOrgAdmin: false, teams: [inTeam('red', false)] },
    'in the red and the blue team': { isOrgAdmin: false, teams: [inTeam('red'), inTeam('blue')] },
    'in the red team who is an org admin': { isOrgAdmin: true, teams: [inTeam('red')] },
  };
  for (const [name, user] of Object.entries(users)) {
    it(`lets org admins manage a user ${name}, and a team admin whose teams are all of the user's`, () => {
      const asked = [member, orgAdmin, redAdmin, stranger].map((who) =>
        mayPerformAction(who, 'user:manage', { orgId: 'acme', ...user }),
      );
      expect(asked).deep.equal([false, true, name === 'in the red team', false]);
    });
  }

  it('lets members list their team, and team and org admins manage its members', () => {
    const red = { orgId: 'acme', teamId: 'red' };
    const inTeam = actor({ teamIds: ['red'] });
    const callers = [member, inTeam, redAdmin, orgAdmin, stranger];
    expect(callers.map((who) => mayPerformAction(who, 'team:list_members', red))).deep.equal([
      false,
      true,
      true,
      true,
      false,
    ]);
    expect(callers.map((who) => mayPerformAction(who, 'team:manage_members', red))).deep.equal([
      false,
      false,
      true,
      true,
      false,
    ]);
  });

  it('lets only the owner change a draft or a chat', () => {
    for (const action of ['draft:write', 'chat:write'] as const) {
      expect(mayPerformAction(orgAdmin, action, { orgId: 'acme', createdBy: 'bob' })).equal(false);
      expect(mayPerformAction(member, action, { orgId: 'acme', createdBy: 'ada' })).equal(true);
    }
  });

  it('lets users change a job if they may change what it works on', () => {
    const job = { orgId: 'acme', kind: 'ingest', createdBy: 'bob', chatId: null, acl: ['user:bob', 'team:red'] };
    expect([member, redAdmin, orgAdmin].map((who) => mayPerformAction(who, 'job:write', job))).deep.equal([
      false,
      true,
      true,
    ]);
    const ofChat = { ...job, kind: 'alignment', chatId: 'chat' };
    expect([redAdmin, orgAdmin].map((who) => mayPerformAction(who, 'job:write', ofChat))).deep.equal([false, false]);
    const ofAll = { ...job, kind: 'reembed', createdBy: 'ada' };
    expect([member, orgAdmin].map((who) => mayPerformAction(who, 'job:write', ofAll))).deep.equal([false, true]);
    const ofAdmins = { ...job, kind: 'delete', createdBy: 'ada', acl: ['admins:acme'] };
    for (const action of ['job:read', 'job:write'] as const) {
      expect([member, redAdmin, orgAdmin].map((who) => mayPerformAction(who, action, ofAdmins))).deep.equal([
        false,
        false,
        true,
      ]);
    }
  });

  it('lets org admins without a team read team content, but no personal content of others', () => {
    const asking = actor({ isOrgAdmin: true, openTeamIds: ['red'] });
    expect(mayPerformAction(asking, 'document:read', { orgId: 'acme', acl: ['user:bob', 'team:red'] })).equal(true);
    expect(mayPerformAction(asking, 'document:read', { orgId: 'acme', acl: ['user:bob'] })).equal(false);
  });
});
