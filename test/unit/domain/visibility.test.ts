import { expect } from 'chai';
import fc from 'fast-check';
import { mayPerformAction } from '#src/domain/access/policy.ts';
import {
  type Actor,
  accessKeysOfActor,
  accessKeysOfRow,
  type RowOwnerAndVisibility,
  visibilityOfAccessKeys,
} from '#src/domain/access/visibility.ts';

const actor = (over: Partial<Actor> = {}): Actor => ({
  userId: 'ada',
  orgId: 'acme',
  isOrgAdmin: false,
  teamIds: [],
  teamAdminOf: [],
  openTeamIds: over.teamIds ?? [],
  ...over,
});
const scope = (over: Partial<RowOwnerAndVisibility> = {}): RowOwnerAndVisibility => ({
  orgId: 'acme',
  createdBy: 'bob',
  visibility: 'personal',
  teamIds: [],
  ...over,
});
const reads = (who: Actor, what: RowOwnerAndVisibility): boolean =>
  mayPerformAction(who, 'document:read', { orgId: what.orgId, acl: accessKeysOfRow(what) });
const manages = (who: Actor, what: RowOwnerAndVisibility): boolean =>
  mayPerformAction(who, 'document:write', { ...what, acl: accessKeysOfRow(what) });

describe('visibility', () => {
  it('lets the owner read a row of any visibility', () => {
    expect(reads(actor(), scope({ createdBy: 'ada' }))).to.equal(true);
    expect(reads(actor(), scope({ createdBy: 'ada', visibility: 'team_level', teamIds: ['red'] }))).to.equal(true);
  });

  it('hides a personal row from all others, including org admins', () => {
    expect(reads(actor(), scope())).to.equal(false);
    expect(reads(actor({ isOrgAdmin: true }), scope())).to.equal(false);
  });

  it('lets only members of its teams read a team row', () => {
    const row = scope({ visibility: 'team_level', teamIds: ['red', 'blue'] });
    expect(reads(actor({ teamIds: ['blue'] }), row)).to.equal(true);
    expect(reads(actor({ teamIds: ['green'] }), row)).to.equal(false);
  });

  it('lets only members of the organization read an organization row', () => {
    const row = scope({ visibility: 'org_level' });
    expect(reads(actor(), row)).to.equal(true);
    expect(reads(actor({ orgId: 'other' }), row)).to.equal(false);
  });

  it('never grants access across organizations, whatever the keys of a row', () => {
    fc.assert(
      fc.property(fc.array(fc.string()), (acl) => {
        const who = actor({ orgId: 'other', teamIds: ['red'] });
        expect(
          mayPerformAction(who, 'document:read', { orgId: 'acme', acl: [...acl, ...accessKeysOfActor(who)] }),
        ).to.equal(false);
      }),
    );
  });

  it('lets org admins manage shared rows, team admins those of their team, and owners their own', () => {
    const teamRow = scope({ visibility: 'team_level', teamIds: ['red'] });
    expect(manages(actor({ isOrgAdmin: true }), teamRow)).to.equal(true);
    expect(manages(actor({ teamIds: ['red'], teamAdminOf: ['red'] }), teamRow)).to.equal(true);
    expect(manages(actor({ teamIds: ['red'] }), teamRow)).to.equal(false);
    expect(manages(actor({ isOrgAdmin: true }), scope())).to.equal(false);
    expect(manages(actor(), scope({ createdBy: 'ada' }))).to.equal(true);
  });

  it('lets the organization read a row without an owner, and org admins manage it', () => {
    const root = scope({ createdBy: null, visibility: 'org_level' });
    expect(accessKeysOfRow(root)).to.deep.equal(['org:acme']);
    expect(reads(actor(), root)).to.equal(true);
    expect(manages(actor(), root)).to.equal(false);
    expect(manages(actor({ isOrgAdmin: true }), root)).to.equal(true);
  });

  it('derives the visibility from the keys of a row', () => {
    expect(visibilityOfAccessKeys(['user:ada'])).to.equal('personal');
    expect(visibilityOfAccessKeys(['user:ada', 'team:red'])).to.equal('team_level');
    expect(visibilityOfAccessKeys(['user:ada', 'team:red', 'org:acme'])).to.equal('org_level');
  });
});
