import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { z } from 'zod';
import { appError } from '#src/errors.ts';
import type { ToolExecutor } from '#src/ports/tools.ts';
import { createFairQueue } from '../fair-queue.ts';
import type { ParserSandbox } from '../parser-sandbox.ts';

const script = join(import.meta.dirname, 'math-process.ts');
const projectFolder = join(import.meta.dirname, '../../..');
const readable = [script, join(projectFolder, 'node_modules'), join(projectFolder, 'package.json')];
/**
 * Of the processor, not of the clock: on a busy machine a calculation that is not to blame may wait long for its turn. It
 * takes a millisecond of it, the start of its process 300 ms.
 */
const longestCpuSeconds = 3;
const heapMiB = 64;
/** Of an organization: two answers full of calculations. What came later would wait in vain. */
const maxWaitingPerOwner = 12;

const argumentsOf = z.object({ expression: z.string() });
const answer = z.union([z.strictObject({ result: z.string() }), z.strictObject({ error: z.string() })]);

/**
 * `math.evaluate`, in a process of its own, which may read no file but its own code, knows nothing of our environment,
 * and is killed at its limits: no expression can hold up, fill or take over another process. The network is closed by
 * the sandbox; where there is none, by math.js, whose expressions cannot reach it.
 */
export function createMathTool(deps: { sandbox: ParserSandbox; cpuSeconds?: number }): ToolExecutor {
  const { sandbox, cpuSeconds = longestCpuSeconds } = deps;
  // Each may keep a core busy up to its limit.
  const refusal = () =>
    appError('tool_failed', { detail: 'Too many calculations of your organization wait for their turn.' });
  const inTurn = createFairQueue(1, { bound: { maxWaitingPerOwner, refusal } });

  return (args, { actor, signal }) =>
    inTurn(actor.orgId, async () => {
      const { expression } = argumentsOf.parse(args);
      const output = await workOut(expression, { sandbox, signal, cpuSeconds });
      if (output === null) {
        signal.throwIfAborted();
        throw appError('tool_arguments_invalid', { detail: 'This takes too much time or memory to work out.' });
      }
      const said = answer.parse(JSON.parse(output));
      if ('error' in said) throw appError('tool_arguments_invalid', { detail: said.error });
      return said.result;
    });
}

/** What the process says; null when it was killed, or broke down under its task. */
async function workOut(
  expression: string,
  { sandbox, signal, cpuSeconds }: { sandbox: ParserSandbox; signal: AbortSignal; cpuSeconds: number },
): Promise<string | null> {
  signal.throwIfAborted();
  const flags = [
    '--permission',
    ...readable.map((path) => `--allow-fs-read=${path}`),
    `--max-old-space-size=${heapMiB}`,
  ];
  const limited = ['/bin/sh', '-c', `ulimit -t ${cpuSeconds}; exec "$0" "$@"`] as const;
  const [program, ...args] = sandbox.confine([...limited, process.execPath, ...flags, script], { read: readable });
  const child = spawn(program, args, { env: {}, cwd: '/', stdio: ['pipe', 'pipe', 'ignore'] });
  const kill = () => {
    child.kill('SIGKILL');
    // A process that it started may hold it open.
    child.stdout.destroy();
  };
  signal.addEventListener('abort', kill);
  child.stdin.on('error', () => undefined).end(expression);
  try {
    const ended = new Promise<number | null>((resolve, reject) => child.once('error', reject).once('close', resolve));
    const [code, output] = await Promise.all([ended, text(child.stdout).catch(() => null)]);
    return code === 0 ? output : null;
  } finally {
    signal.removeEventListener('abort', kill);
  }
}
