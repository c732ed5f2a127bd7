import { auditCommand } from './audit.ts';
import { auditStoresCommand } from './audit-stores.ts';
import { backupCommand, restoreCommand } from './backup.ts';
import type { Command } from './command.ts';
import { listOrganizationsCommand, listUsersCommand } from './lists.ts';
import {
  createOrganizationCommand,
  eraseOrganizationCommand,
  exportOrganizationCommand,
  setTierCommand,
} from './organizations.ts';
import { reembedCommand } from './reembed.ts';
import { rescoreCommand } from './rescore.ts';
import { resealCommand, rotateKeysCommand } from './rotate-keys.ts';
import { temporalViewsCommand } from './temporal-views.ts';
import { disableUserCommand, enableUserCommand, sessionsCommand } from './users.ts';
import { verifyCommand } from './verify.ts';
import { workerVersionsCommand } from './worker-versions.ts';

export const commands: ReadonlyMap<string, Command> = new Map(
  Object.entries({
    'list-organizations': listOrganizationsCommand,
    'list-users': listUsersCommand,
    'create-organization': createOrganizationCommand,
    'set-tier': setTierCommand,
    'export-organization': exportOrganizationCommand,
    'erase-organization': eraseOrganizationCommand,
    'disable-user': disableUserCommand,
    'enable-user': enableUserCommand,
    sessions: sessionsCommand,
    audit: auditCommand,
    'rotate-keys': rotateKeysCommand,
    reseal: resealCommand,
    backup: backupCommand,
    restore: restoreCommand,
    verify: verifyCommand,
    'audit-stores': auditStoresCommand,
    reembed: reembedCommand,
    rescore: rescoreCommand,
    'worker-versions': workerVersionsCommand,
    'temporal-views': temporalViewsCommand,
  }),
);
