import { randomUUID } from 'node:crypto';
import { cp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { runAdmin } from './admin-command.ts';
import { createEmptyPlace, type EmptyPlace, fillInstallation } from './backup-story.ts';
import type { Member } from './client.ts';
import { type Stack, startStack } from './stack.ts';

/** An installation with documents, chats and settings, and a folder with one backup of it. */
export type BackedUp = {
  source: Stack;
  /** Owner of the content. */
  ada: Member;
  folder: string;
  /** Runs `backup` and expects success. */
  backUp(...args: string[]): Promise<void>;
  /** Runs `restore`, by default from the folder. */
  restore(place: Pick<EmptyPlace, 'settings'>, from?: string): ReturnType<typeof runAdmin>;
  /** An empty place, removed together with the installation. */
  newPlace(storage?: Record<string, string>): Promise<EmptyPlace>;
  /** A copy of the folder with the path of its newest backup, for tests that damage it. */
  copyOfFolder(): Promise<{ copy: string; path: string }>;
  close(): Promise<void>;
};

/** @param storage settings of the blob store and the vector store */
export async function backUpInstallation(storage: Record<string, string> = {}): Promise<BackedUp> {
  const source = await startStack(storage, { workers: 'all' });
  const folder = join(tmpdir(), `backups-${randomUUID()}`);
  const places: EmptyPlace[] = [];
  const backUp = async (...args: string[]) => {
    const { code, stderr } = await runAdmin(source.settings, ['backup', ...args]);
    expect(code, stderr).equal(0);
  };
  const close = async () => {
    await source.close();
    for (const place of places) await place.close();
    await rm(folder, { recursive: true, force: true });
  };
  const fill = async () => {
    const { ada } = await fillInstallation(source);
    await backUp('--into', folder);
    return ada;
  };
  const ada = await fill().catch(async (error: unknown) => {
    await close();
    throw error;
  });
  return {
    source,
    ada,
    folder,
    backUp,
    restore: ({ settings }, from = folder) => runAdmin(settings, ['restore', '--from', from]),
    newPlace: async (changes = {}) => {
      const place = await createEmptyPlace(source, changes);
      places.push(place);
      return place;
    },
    copyOfFolder: async () => {
      const copy = `${folder}-${randomUUID()}`;
      await cp(folder, copy, { recursive: true });
      return { copy, path: join(copy, await newestOf(copy)) };
    },
    close,
  };
}

/** Names of the backups of a folder, oldest first. */
export const backupsOf = async (folder: string): Promise<string[]> =>
  (await readdir(folder)).filter((name) => /^\d{4}-/.test(name)).sort();

export const newestOf = async (folder: string): Promise<string> => (await backupsOf(folder)).at(-1) ?? '';
