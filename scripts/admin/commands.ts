import { audit } from './audit.ts';
import { auditStores } from './audit-stores.ts';
import { backup, restore } from './backup.ts';
import type { Command } from './command.ts';
import { createOrganization, eraseOrganization, exportOrganization, setTier } from './organizations.ts';
import { reembed } from './reembed.ts';
import { rescore } from './rescore.ts';
import { reseal, rotateKeys } from './rotate-keys.ts';
import { disableUser, enableUser, sessions } from './users.ts';
import { verify } from './verify.ts';
import { workerVersions } from './worker-versions.ts';

/** Commands by name, in the order of the help. */
export const commands: ReadonlyMap<string, Command> = new Map(
  Object.entries({
    'create-organization': createOrganization,
    'set-tier': setTier,
    'export-organization': exportOrganization,
    'erase-organization': eraseOrganization,
    'disable-user': disableUser,
    'enable-user': enableUser,
    sessions,
    audit,
    'rotate-keys': rotateKeys,
    reseal,
    backup,
    restore,
    verify,
    'audit-stores': auditStores,
    reembed,
    rescore,
    'worker-versions': workerVersions,
  }),
);
