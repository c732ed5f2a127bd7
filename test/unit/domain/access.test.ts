import { expect } from 'chai';
import fc from 'fast-check';
import { findPasswordProblems, maskSecret } from '#src/domain/access/credentials.ts';
import { createOrFindExisting } from '#src/domain/access/idempotency.ts';
import { createConcurrencyCounter, defaultRateLimits, defaultTierLimits } from '#src/domain/access/limits.ts';
import { mayPerformAction } from '#src/domain/access/policy.ts';
import { validateReturnUrl } from '#src/domain/access/return-address.ts';
import {
  type Actor,
  accessKeysOfActor,
  accessKeysOfRow,
  hasLostAccessKeys,
  type RowOwnerAndVisibility,
  visibilityOfAccessKeys,
} from '#src/domain/access/visibility.ts';

const actor = (over: Partial<Actor> = {}): Actor => ({
  ...{ userId: 'ada', orgId: 'acme', isOrgAdmin: false, teamAdminOf: [], contributesToOrganization: false },
  teamIds: over.teamAdminOf ?? [],
  openTeamIds: over.teamIds ?? over.teamAdminOf ?? [],
  ...over,
});
const member = actor();
const redMember = actor({ teamIds: ['red'] });
const redAdmin = actor({ teamAdminOf: ['red'] });
const orgAdmin = actor({ isOrgAdmin: true });
const stranger = actor({ orgId: 'other', isOrgAdmin: true, teamAdminOf: ['red'] });
const callers = [member, redMember, redAdmin, orgAdmin, stranger];
const nobody = { who: 'nobody', allowed: [] };
const onlyOrgAdmin = { who: 'only org admins', allowed: [orgAdmin] };
const bothAdmins = { who: 'only org admins and admins of the team', allowed: [redAdmin, orgAdmin] };
const wholeTeam = { who: 'only org admins and members of the team', allowed: [redMember, redAdmin, orgAdmin] };
const members = { who: 'every user of the organization', allowed: [member, redMember, redAdmin, orgAdmin] };
const inTheTeam = { who: 'only team members', allowed: [redMember, redAdmin] };

describe('the access rules', () => {
  const inTeam = (teamId: string, isEntrusted = true) => ({ teamId, isEntrusted });
  const user = (teams: object[], isOrgAdmin = false) => ({ orgId: 'acme', isOrgAdmin, teams });
  const job = { orgId: 'acme', kind: 'ingest', createdBy: 'bob', chatId: null, acl: ['user:bob', 'team:red'] };
  const redFolder = { orgId: 'acme', ownerId: null, createdBy: 'bob', acl: ['team:red'] };
  const orgFolder = { ...redFolder, acl: ['org:acme'] };
  const bobsFolder = { ...redFolder, ownerId: 'bob', acl: ['user:bob'] };
  const jobOfAdmins = { ...job, kind: 'delete', createdBy: 'ada', acl: ['admins:acme'] };

  for (const [what, action, target, { who, allowed }] of [
    ['read the organization itself', 'organization:read', { orgId: 'acme' }, members],
    ['administer the organization itself', 'organization:administer', { orgId: 'acme' }, onlyOrgAdmin],
    ['manage a user without a team', 'user:manage', user([]), onlyOrgAdmin],
    ['manage a user who is in no other team', 'user:manage', user([inTeam('red')]), bothAdmins],
    ['manage a user whom a team admin added to the team', 'user:manage', user([inTeam('red', false)]), onlyOrgAdmin],
    ['manage a user who is in two teams', 'user:manage', user([inTeam('red'), inTeam('blue')]), onlyOrgAdmin],
    ['manage another org admin', 'user:manage', user([inTeam('red')], true), onlyOrgAdmin],
    ['list its members', 'team:list_members', { orgId: 'acme', teamId: 'red' }, wholeTeam],
    ['manage its members', 'team:manage_members', { orgId: 'acme', teamId: 'red' }, bothAdmins],
    ['share content with it', 'team:contribute', { orgId: 'acme', teamId: 'red' }, wholeTeam],
    ['add to a folder of the team', 'folder:contribute', redFolder, wholeTeam],
    ['rename a folder of the team that another user made', 'folder:write', redFolder, bothAdmins],
    ['rename a folder of the team that they made', 'folder:write', { ...redFolder, createdBy: 'ada' }, wholeTeam],
    [
      'delete what others added to their folder of the team',
      'folder:manage',
      { ...redFolder, createdBy: 'ada' },
      bothAdmins,
    ],
    ['add to the personal tree of another user', 'folder:contribute', bobsFolder, nobody],
    ['add to a folder of the organization', 'folder:contribute', orgFolder, onlyOrgAdmin],
    [
      'rename a folder of the organization that they made',
      'folder:write',
      { ...orgFolder, createdBy: 'ada' },
      onlyOrgAdmin,
    ],
    ['change the draft of another user', 'draft:write', { orgId: 'acme', createdBy: 'bob' }, nobody],
    ['change their own draft', 'draft:write', { orgId: 'acme', createdBy: 'ada' }, members],
    ['change the chat of another user', 'chat:write', { orgId: 'acme', createdBy: 'bob' }, nobody],
    ['use their own connection', 'connection:write', { orgId: 'acme', userId: 'ada' }, members],
    ['use the connection of another user', 'connection:write', { orgId: 'acme', userId: 'bob' }, nobody],
    ['delete their own agent', 'agent:delete', { orgId: 'acme', createdBy: 'ada', acl: ['user:ada'] }, members],
    ['delete an agent that another user shares with the team', 'agent:delete', job, onlyOrgAdmin],
    ['change a job on a document of the team', 'job:write', job, bothAdmins],
    ['change a job on a chat of another user', 'job:write', { ...job, kind: 'alignment', chatId: 'chat' }, nobody],
    ['change a job that re-embeds documents', 'job:write', { ...job, kind: 'reembed', createdBy: 'ada' }, onlyOrgAdmin],
    ['change an org-wide job that names a team', 'job:write', { ...job, acl: ['team:red', 'org:acme'] }, onlyOrgAdmin],
    ['read a job whose only access key is `admins:…`', 'job:read', jobOfAdmins, onlyOrgAdmin],
    ['change a job whose only access key is `admins:…`', 'job:write', jobOfAdmins, onlyOrgAdmin],
  ] as const) {
    it(`let ${who} ${what}`, () => {
      expect(callers.filter((caller) => mayPerformAction(caller, action, target as never))).deep.equal(allowed);
    });
  }

  it('let users whom the organization opens its tree to add to it, and change only what they made', () => {
    const opened = actor({ teamAdminOf: ['red'], contributesToOrganization: true });
    expect(mayPerformAction(opened, 'folder:contribute', orgFolder)).equal(true);
    for (const [createdBy, isAllowed] of [
      ['bob', false],
      ['ada', true],
    ] as const) {
      expect(mayPerformAction(opened, 'folder:write', { ...orgFolder, createdBy })).equal(isAllowed);
    }
    expect(mayPerformAction(opened, 'folder:manage', { ...orgFolder, createdBy: 'ada' })).equal(false);
  });

  it('let org admins read content of teams without being a member, but no personal content of other users', () => {
    const outside = actor({ isOrgAdmin: true, openTeamIds: ['red'] });
    expect(mayPerformAction(outside, 'document:read', { orgId: 'acme', acl: ['user:bob', 'team:red'] })).equal(true);
    expect(mayPerformAction(outside, 'document:read', { orgId: 'acme', acl: ['user:bob'] })).equal(false);
  });
});

describe('the visibility of a row', () => {
  const row = (over: Partial<RowOwnerAndVisibility> = {}): RowOwnerAndVisibility => ({
    ...{ orgId: 'acme', createdBy: 'bob', visibility: 'personal', teamIds: [] },
    ...over,
  });
  const reads = (who: Actor, what: RowOwnerAndVisibility) =>
    mayPerformAction(who, 'document:read', { orgId: what.orgId, acl: accessKeysOfRow(what) });
  const manages = (who: Actor, what: RowOwnerAndVisibility) =>
    mayPerformAction(who, 'document:write', { ...what, acl: accessKeysOfRow(what) });
  const red = { visibility: 'team_level', teamIds: ['red', 'blue'] } as const;

  for (const [what, scope, readers, managers] of [
    ['a personal row of another user', row(), nobody, nobody],
    ['their own personal row', row({ createdBy: 'ada' }), members, members],
    ['their own team row', row({ ...red, createdBy: 'ada' }), members, members],
    ['a row of two teams', row(red), inTheTeam, bothAdmins],
    ['an organization row', row({ visibility: 'org_level' }), members, onlyOrgAdmin],
    ['a row without owner', row({ createdBy: null, visibility: 'org_level' }), members, onlyOrgAdmin],
  ] as const) {
    it(`lets ${readers.who} read ${what}, and lets ${managers.who} manage it`, () => {
      expect(callers.filter((who) => reads(who, scope))).deep.equal(readers.allowed);
      expect(callers.filter((who) => manages(who, scope))).deep.equal(managers.allowed);
    });
  }

  it('never grants access across organizations, whatever access keys the row has', () => {
    fc.assert(
      fc.property(fc.array(fc.string()), (acl) => {
        const keys = [...acl, ...accessKeysOfActor(stranger)];
        expect(mayPerformAction(stranger, 'document:read', { orgId: 'acme', acl: keys })).to.equal(false);
      }),
    );
  });

  it('is personal, of a team or of the organization, by the widest access key of the row', () => {
    expect(accessKeysOfRow(row({ createdBy: null, visibility: 'org_level' }))).to.deep.equal(['org:acme']);
    expect(accessKeysOfRow(row({ teamIds: ['red'] }))).to.deep.equal(['user:bob']);
    expect([hasLostAccessKeys(redMember, member), hasLostAccessKeys(member, redMember)]).to.deep.equal([true, false]);
    expect(visibilityOfAccessKeys(['user:ada'])).to.equal('personal');
    expect(visibilityOfAccessKeys(['user:ada', 'team:red'])).to.equal('team_level');
    expect(visibilityOfAccessKeys(['user:ada', 'team:red', 'org:acme'])).to.equal('org_level');
  });
});

describe('the rules for credentials', () => {
  it('mask all of a secret except its first two and last four characters, and all of a short secret', () => {
    expect(maskSecret('AKIAIOSFODNN7EXAMPLE')).equal('AK****MPLE');
    expect(maskSecret('0123456789abcdef')).equal('01****cdef');
    for (const secret of ['', 'test', '0123456789abcde']) expect(maskSecret(secret)).equal('****');
  });

  it('report what a password lacks', () => {
    const strong = ['Abcdefgh1!', 'Abcdefg 1x', 'Ünïcode-Pässw0rd', `Aa1!${'x'.repeat(124)}`, 'Aa1🔑🔑🔑🔑🔑🔑🔑'];
    for (const password of strong) expect(findPasswordProblems(password), password).deep.equal([]);
    for (const [password, faults] of Object.entries({
      ...{ 'Abcdefg1!': 'length', [`Aa1!${'x'.repeat(125)}`]: 'length', 'abcdefgh1!': 'uppercase' },
      ...{ 'ABCDEFGH1!': 'lowercase', 'Abcdefghi!': 'digit', Abcdefghi1: 'special' },
      '': 'length uppercase lowercase digit special',
    })) {
      expect(findPasswordProblems(password).join(' '), password).equal(faults);
    }
  });
});

describe('the return URL after a sign-in', () => {
  it('must be a path of the application or a URL of a known origin', () => {
    const known = { home: 'https://app.example.com/console', origins: ['https://other.example.com:8443'] };
    for (const [text, address] of [
      ['/settings/tools?tab=1#list', 'https://app.example.com/console/settings/tools?tab=1#list'],
      ['/', 'https://app.example.com/console/'],
      ['https://app.example.com/elsewhere', 'https://app.example.com/elsewhere'],
      ['https://OTHER.example.com:8443/x', 'https://other.example.com:8443/x'],
      ['/@evil.example', 'https://app.example.com/console/@evil.example'],
      ['/../..//evil.example', 'https://app.example.com//evil.example'],
    ] as const) {
      expect(validateReturnUrl(text, known)).equal(address);
    }
    for (const text of [
      ...['', 'settings', '//evil.example', '/\\evil.example', '\\\\evil.example', '/\t/evil.example'],
      ...['/\n/evil.example', 'https://user@app.example.com/', 'https://:word@app.example.com/'],
      ...['https://evil.example', 'https://app.example.com.evil.example', 'https://app.example.com@evil.example'],
      ...['https://user:word@app.example.com/', 'http://app.example.com/', 'https://other.example.com/'],
      ...['javascript:alert(1)', 'data:text/html,x', 'https://', '/a\u202eb'],
    ]) {
      expect(validateReturnUrl(text, known), JSON.stringify(text)).equal(null);
    }
  });

  it('stays a relative path in an installation without a base URL', () => {
    const unknown = { home: null, origins: ['https://other.example.com'] };
    for (const text of ['/files?tab=1#list', '/@evil.example', 'https://other.example.com/x']) {
      expect(validateReturnUrl(text, unknown)).equal(text);
    }
    const elsewhere = [
      '/..//evil.example',
      '/.//evil.example',
      '//evil.example',
      'https://evil.example/',
      'http://path/',
    ];
    for (const text of elsewhere) expect(validateReturnUrl(text, unknown), text).equal(null);
  });
});

describe('the limits of organizations and users', () => {
  it('grow from tier to tier, and count requests in windows of ten seconds to fifteen minutes', () => {
    const { free, pro, max } = defaultTierLimits;
    for (const name of Object.keys(free) as (keyof typeof free)[]) {
      expect([free[name], pro[name], max[name]]).deep.equal(
        [free[name], pro[name], max[name]].toSorted((a, b) => a - b),
      );
    }
    for (const tier of [free, pro, max]) expect(tier.fileSizeBytes).within(1024 ** 2, tier.storageBytes);
    for (const { count, seconds } of Object.values(defaultRateLimits)) {
      expect(count).at.least(10);
      expect(seconds).within(10, 900);
    }
  });

  it('count the requests of each user and organization that are under way', () => {
    const { of, take } = createConcurrencyCounter();
    const ended = [take('ada', 'acme'), take('bob', 'acme')];
    expect(['ada', 'bob', 'acme', 'other'].map(of)).deep.equal([1, 1, 2, 0]);
    ended[0]?.();
    expect(['ada', 'bob', 'acme'].map(of)).deep.equal([0, 1, 1]);
    ended[1]?.();
    expect(['bob', 'acme'].map(of)).deep.equal([0, 0]);
  });
});

describe('creating a resource with a reserved id', () => {
  it('returns the resource of an earlier attempt if it has the id, and throws the error if there is none', async () => {
    const taken = async () => Promise.reject(new Error('taken'));
    expect(await createOrFindExisting(async () => 'new', taken)).equal('new');
    expect(await createOrFindExisting(taken, async () => 'found')).equal('found');
    const error = await createOrFindExisting(taken, async () => undefined).catch((problem: unknown) => problem);
    expect(error).property('message', 'taken');
  });
});
