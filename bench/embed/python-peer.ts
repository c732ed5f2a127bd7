import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { dieWithParent } from '../../scripts/supervisor/parent-death.ts';

/**
 * Modes of the Python peer: one text at a time, sorted batches of 32, or a thread with its own session for each core.
 */
export const peerModes = ['single', 'batches', 'threads'] as const;
export type PeerMode = (typeof peerModes)[number];

export type PeerRun = { seconds: number; tokens: number; vectors: Float32Array };

export type PythonPeer = {
  versions: Record<string, string>;
  embed(texts: readonly string[], way: PeerMode): Promise<PeerRun>;
  stop(): Promise<void>;
};

const requirements = join(import.meta.dirname, 'requirements.txt');

/** Installs onnxruntime for Python and returns its folder; logs the reason and returns null if that fails. */
export function installPeer(): string | null {
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'agent-conversation-service');
  const hash = createHash('sha256').update(readFileSync(requirements)).digest('hex').slice(0, 16);
  const folder = join(cache, `bench-embed-${hash}`);
  if (existsSync(folder)) return folder;
  const draft = `${folder}.new`;
  rmSync(draft, { recursive: true, force: true });
  const options = ['--quiet', '--no-input', '--disable-pip-version-check', '--root-user-action=ignore', '--no-deps'];
  const pip = spawnSync(
    'python3',
    ['-m', 'pip', 'install', ...options, '--only-binary=:all:', '--target', draft, '--requirement', requirements],
    { encoding: 'utf8' },
  );
  if (pip.status !== 0) {
    console.error(`onnxruntime for Python could not be installed: ${(pip.stderr || String(pip.error ?? '')).trim()}`);
    return null;
  }
  renameSync(draft, folder);
  return folder;
}

export async function startPeer(options: {
  folder: string;
  modelPath: string;
  tokenizerPath: string;
  cores: number;
}): Promise<PythonPeer> {
  const { folder, modelPath, tokenizerPath, cores } = options;
  const script = join(import.meta.dirname, 'peer.py');
  const [program, ...args] = dieWithParent(
    ['python3', '-B', script, modelPath, tokenizerPath, String(cores)],
    'SIGTERM',
  );
  const child = spawn(program, args, {
    env: { ...process.env, PYTHONPATH: folder },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const read = async (): Promise<unknown> => {
    const { value, done } = await lines.next();
    if (done) throw new Error('The Python peer exited before it answered.');
    return JSON.parse(value);
  };
  const { versions } = (await read()) as { versions: Record<string, string> };

  return {
    versions,
    async embed(texts, way) {
      child.stdin.write(`${JSON.stringify({ texts, way })}\n`);
      const answer = (await read()) as { seconds: number; tokens: number; vectors: string };
      const bytes = Uint8Array.from(Buffer.from(answer.vectors, 'base64'));
      return { ...answer, vectors: new Float32Array(bytes.buffer) };
    },
    stop: () => end(child),
  };
}

async function end(child: ChildProcess): Promise<void> {
  const exit = once(child, 'exit');
  child.stdin?.end();
  await exit;
}
