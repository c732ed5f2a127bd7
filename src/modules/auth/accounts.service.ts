import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import type { Actor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { FoldersService } from '#src/modules/folders/folders.service.ts';
import type { PasswordHasher } from '#src/ports/identity.ts';
import { createAccountsRepository } from './accounts.repository.ts';
import type { Account, NewMembership, NewUser } from './auth.model.ts';

type Names = { firstName?: string | undefined; lastName?: string | undefined; displayName?: string | undefined };

export function createAccountsService(deps: {
  db: Knex;
  passwords: Pick<PasswordHasher, 'hash'>;
  folders: Pick<FoldersService, 'createOrganizationRoot' | 'createPersonalRoot'>;
}) {
  const { db, passwords, folders } = deps;

  async function create(trx: Knex, user: NewUser, membership: NewMembership): Promise<void> {
    if (!(await createAccountsRepository(trx).insert(user, membership))) throw emailTaken();
    await folders.createPersonalRoot(trx, { orgId: membership.orgId, userId: user.userId });
  }

  return {
    /**
     * Prepares a new user before the transaction that creates the account, because hashing the password is slow. Throws
     * `email_taken`.
     * @param owner the organization or network that waits for the hashing, see {@link PasswordHasher}
     */
    async prepare(
      input: Names & { email: string; password: string | null },
      owner: string,
      userId = uuidv7(),
    ): Promise<NewUser> {
      const { email, firstName = null, lastName = null } = input;
      // Rejects a taken email before the slow password hashing. If two requests use the same email at once, the unique
      // index decides.
      if (await createAccountsRepository(db).isEmailTaken(email)) throw emailTaken();
      const displayName = input.displayName ?? (fullName(input) || localPart(email));
      const passwordHash = input.password === null ? null : await passwords.hash(input.password, owner);
      return { userId, email, passwordHash, firstName, lastName, displayName };
    },

    create,

    async find(who: { email: string } | { userId: string }): Promise<Account> {
      const accounts = createAccountsRepository(db);
      const account = await ('email' in who ? accounts.findByEmail(who.email) : accounts.findById(who.userId));
      if (account === undefined) throw appError('user_not_found');
      return account;
    },

    /**
     * Reads the current rights of a user in the given transaction; undefined if the account is disabled or deleted.
     */
    findActor(trx: Knex, userId: string): Promise<Actor | undefined> {
      return createAccountsRepository(trx).findActor(userId);
    },

    /** Creates an organization and its first user, who is its admin. Throws `email_taken`. */
    async createOrganization(
      trx: Knex,
      founder: NewUser,
      { orgId, name }: { orgId: string; name: string },
    ): Promise<void> {
      await createAccountsRepository(trx).insertOrganization({ id: orgId, name });
      await create(trx, founder, { orgId, isOrgAdmin: true, addedBy: null });
      await folders.createOrganizationRoot(trx, { orgId, name, createdBy: founder.userId });
    },
  };
}

export type AccountsService = ReturnType<typeof createAccountsService>;

const emailTaken = () => appError('email_taken', { detail: 'Use another email, or sign in to the existing account.' });

function fullName({ firstName, lastName }: Names): string {
  return [firstName, lastName].filter((name) => name !== undefined).join(' ');
}

function localPart(email: string): string {
  return email.slice(0, email.lastIndexOf('@'));
}
