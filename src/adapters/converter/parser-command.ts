import { join } from 'node:path';
import type { ParserSandbox } from '../parser-sandbox.ts';
import type { ConversionLimits } from './conversion-limits.ts';

const projectFolder = join(import.meta.dirname, '../../..');
/** All that a parser may read besides its file: itself and its packages. */
const readableCode = ['src/adapters/converter', 'src/domain', 'src/errors.ts', 'node_modules', 'package.json'];

/**
 * The command of a parser that runs on Node. It may read its files, which are absolute and no links, and nothing else.
 * Node enforces that for JavaScript everywhere, and the sandbox for native code, too, where the system has one.
 */
export function parserCommand(parser: {
  sandbox: ParserSandbox;
  script: string;
  args: string[];
  readable: string[];
  hasNativeCode?: boolean;
  limits: Pick<ConversionLimits, 'heapMiB'>;
}): { command: string; args: string[] } {
  const readable = [...parser.readable, ...readableCode.map((name) => join(projectFolder, name))];
  const node = [
    '--permission',
    ...(parser.hasNativeCode ? ['--allow-addons'] : []),
    ...readable.map((name) => `--allow-fs-read=${name}`),
    `--max-old-space-size=${parser.limits.heapMiB}`,
  ];
  const [command, ...args] = parser.sandbox.confine([process.execPath, ...node, parser.script, ...parser.args], {
    read: readable,
  });
  return { command, args };
}
