import { randomBytes, randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { exportJWK, generateKeyPair, type JWK } from 'jose';
import { z } from 'zod';
import { newPassword, readOrCreateFile } from '../secrets.ts';
import { StartFailure } from '../supervisor/start-failure.ts';
import type { ProviderAccount } from './account.ts';

const accountsFile = z.array(
  z.object({
    sub: z.string().min(1),
    login: z.string().toLowerCase(),
    password: z.string().min(1),
    claims: z.record(z.string(), z.unknown()),
  }),
);

type ProviderSecrets = { clientSecret: string; cookieKey: string; signingKey: JWK };

export type ProviderFolder = ProviderSecrets & { path: string; accounts: ProviderAccount[]; accountsPath: string };

/**
 * Reads the provider's folder, or creates it with two accounts, random passwords and keys. Changes of `accounts.json`
 * apply from the next start.
 * @throws StartFailure if `accounts.json` is not valid
 */
export async function openProviderFolder(path: string): Promise<ProviderFolder> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  const accountsPath = join(path, 'accounts.json');
  const secrets: ProviderSecrets = JSON.parse(
    await readOrCreateFile(join(path, 'secrets.json'), async () => JSON.stringify(await newSecrets())),
  );
  const text = await readOrCreateFile(accountsPath, async () => `${JSON.stringify(firstAccounts(), null, 2)}\n`);
  return { ...secrets, path, accounts: readAccounts(accountsPath, text), accountsPath };
}

function readAccounts(path: string, text: string): ProviderAccount[] {
  try {
    return accountsFile.parse(JSON.parse(text));
  } catch (error) {
    const [issue] = error instanceof z.ZodError ? error.issues : [];
    const problem = issue ? [issue.path.join('.'), issue.message].filter(Boolean) : ['the file is not valid JSON'];
    throw new StartFailure([path, ...problem].join(': '));
  }
}

async function newSecrets(): Promise<ProviderSecrets> {
  return {
    clientSecret: randomBytes(32).toString('base64url'),
    cookieKey: randomBytes(32).toString('base64url'),
    signingKey: await newIdTokenKey(),
  };
}

export async function newIdTokenKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair('RS256', { extractable: true });
  return { ...(await exportJWK(privateKey)), kid: randomUUID(), use: 'sig', alg: 'RS256' };
}

function firstAccounts(): ProviderAccount[] {
  return [
    newAccount('grace@example.com', { email_verified: true, given_name: 'Grace', family_name: 'Hopper' }),
    // The service links and creates accounts by verified emails only: Mallory's sign-in shows the error.
    newAccount('mallory@example.com', { email_verified: false, given_name: 'Mallory', family_name: 'Doe' }),
  ];
}

function newAccount(email: string, claims: Record<string, unknown>): ProviderAccount {
  return { sub: randomUUID(), login: email, password: newPassword(), claims: { email, ...claims } };
}
