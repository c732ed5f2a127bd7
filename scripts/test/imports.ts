import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Returns the files of the project that a file imports, types included, as paths from the root (the working directory). */
export function importsOf(file: string): string[] {
  const specifiers = readFileSync(file, 'utf8').matchAll(/^(?:import|export|\}) .*?from '([#.][^']+)';$/gm);
  return Array.from(specifiers, ([, path = '']) => (path.startsWith('#') ? path.slice(1) : join(dirname(file), path)));
}
