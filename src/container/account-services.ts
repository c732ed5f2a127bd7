import { createArgon2Hasher } from '../adapters/passwords/argon2-hasher.ts';
import { createRs256AccessTokens } from '../adapters/tokens/rs256-access-tokens.ts';
import { createPassport } from '../http/request/authentication.ts';
import { createAccountsService } from '../modules/auth/accounts.service.ts';
import { createAuthService } from '../modules/auth/auth.service.ts';
import { createPasswordsService } from '../modules/auth/passwords.service.ts';
import { createSessionsService } from '../modules/auth/sessions.service.ts';
import { createSignInDelay } from '../modules/auth/sign-in-delay.service.ts';
import { createSsoService, type SsoSignInStateFields } from '../modules/auth/sso.service.ts';
import { SignInStateModel } from '../modules/consents/consents.model.ts';
import { createOAuthStateStore } from '../modules/consents/one-time-states.repository.ts';
import { createJobFeedService } from '../modules/jobs/job-feed.service.ts';
import { createJobActionsService } from '../modules/jobs/job-requests.service.ts';
import { createJobWatchService } from '../modules/jobs/job-watch.service.ts';
import { createMembersService } from '../modules/members/members.service.ts';
import { createOperatorService } from '../modules/operator/operator.service.ts';
import {
  createAccessRightsChangesService,
  createOrganizationService,
} from '../modules/organization/organization.service.ts';
import { createAvatarsService, createProfileService } from '../modules/profile/profile.service.ts';
import { createTeamMembersService } from '../modules/teams/team-members.service.ts';
import { createTeamsService } from '../modules/teams/teams.service.ts';
import type { SharedServices } from './shared-services.ts';

export function createAccountServices(shared: SharedServices) {
  const { config, db, audit, folders, limits, jobs, orchestrator, rateLimiters, logger } = shared;
  const { secrets, findSignInStrategy, makeAvatar } = shared;
  const passwordHasher = createArgon2Hasher({ memoryMiB: config.passwordHashMemoryMiB });
  const accessTokens = createRs256AccessTokens({
    ...config.auth,
    lifetimeSeconds: config.auth.accessTokenSeconds,
  });
  const sessions = createSessionsService({ db, audit });
  const accounts = createAccountsService({ db, passwords: passwordHasher, folders });
  const signInDelay = createSignInDelay(db, rateLimiters.shared, config.rateLimits.login_account);
  const auth = createAuthService({
    db,
    passwords: passwordHasher,
    accessTokens,
    accounts,
    sessions,
    signInDelay,
    audit,
  });
  const passwords = createPasswordsService({ db, passwords: passwordHasher, sessions, audit });
  const accessChanges = createAccessRightsChangesService({ accounts, limits });
  const organizations = createOrganizationService({ db, folders, accessChanges, audit });
  const teams = createTeamsService({ db, organizations, folders, accessChanges, audit });
  const members = createMembersService({
    ...{ db, accounts, passwords: passwordHasher, sessions, organizations, limits, teams, accessChanges, audit },
    signInDelay,
  });
  const { authenticate, authenticateSession, identityProvider } = createPassport({
    verifyToken: accessTokens.verify,
    findCaller: auth.findCaller,
    findKeyCaller: auth.findKeyCaller,
    onAccessChange: accessChanges.listen,
    findSignInStrategy,
  });
  const findActor = (userId: string) => auth.findActor(userId);

  return {
    accessTokens,
    accounts,
    sessions,
    auth,
    authenticate,
    authenticateSession,
    findActor,
    sso: createSsoService({
      db,
      sso: identityProvider && config.sso && { ...config.sso, provider: identityProvider },
      states: createOAuthStateStore<SsoSignInStateFields>({ db, secrets, model: SignInStateModel }),
      accounts,
      sessions,
      auth,
      audit,
    }),
    passwords,
    accessChanges,
    organizations,
    teams,
    members,
    operator: createOperatorService({ db, accounts, organizations, members, sessions, accessChanges, audit }),
    teamMembers: createTeamMembersService({ db, organizations, teams, members, accessChanges, audit }),
    profile: createProfileService({ db }),
    avatars: createAvatarsService({ db, makeAvatar }),
    jobRequests: createJobActionsService({ db, orchestrator, jobs }),
    jobWatch: createJobWatchService({ jobs, findActors: auth.findActors, logger }),
    jobFeed: createJobFeedService({ db, orchestrator, findActors: auth.findActors, logger }),
  };
}

export type AccountServices = ReturnType<typeof createAccountServices>;
