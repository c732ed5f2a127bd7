import { join } from 'node:path';
import type { ConversionLimits } from './conversion-limits.ts';

const projectFolder = join(import.meta.dirname, '../../..');
/** All that a parser may read besides its file: itself and its packages. */
const readableCode = ['src/adapters/converter', 'src/domain', 'src/errors.ts', 'node_modules', 'package.json'];

/**
 * The command of a parser that runs on Node: it may read its files, which are absolute and no links, and nothing else.
 * Native code, for those that bring it, is not held to that.
 */
export function parserCommand(parser: {
  script: string;
  args: string[];
  readable: string[];
  hasNativeCode?: boolean;
  limits: Pick<ConversionLimits, 'heapMiB'>;
}): { command: string; args: string[] } {
  const readable = [...parser.readable, ...readableCode.map((name) => join(projectFolder, name))];
  return {
    command: process.execPath,
    args: [
      '--permission',
      ...(parser.hasNativeCode ? ['--allow-addons'] : []),
      ...readable.map((name) => `--allow-fs-read=${name}`),
      `--max-old-space-size=${parser.limits.heapMiB}`,
      parser.script,
      ...parser.args,
    ],
  };
}
