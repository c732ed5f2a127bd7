import { execFile } from 'node:child_process';
import { copyFile, cp, mkdir, readFile } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { promisify } from 'node:util';
import { withoutLocalPrograms } from '../bootstrap/child.mjs';

const ROOT = join(import.meta.dirname, '..', '..');
const LARGE = 64 * 1024 * 1024;

const run = promisify(execFile);

export type ImageFolder = { app: string; tools: string; node: string; env: Record<string, string> };

/**
 * Builds the content of the Docker image in local folders by running the Dockerfile's own commands, for machines
 * without a container engine. Uses the Python and pip of this machine instead of Debian's.
 * @param home an empty folder
 */
export async function makeImageFolder(home: string): Promise<ImageFolder> {
  const dockerfile = await readFile(join(ROOT, 'Dockerfile'), 'utf8');
  const [app, tools, node] = [join(home, 'app'), join(home, 'tools'), join(home, 'node')];
  await Promise.all([mkdir(app), mkdir(tools)]);
  // The image's user may not read the checkout, so it gets a copy of the Node program.
  await copyFile(process.execPath, node);
  const inApp = async (command: string) => {
    const env = { ...withoutLocalPrograms(process.env), npm_config_loglevel: 'error' };
    await run('sh', ['-euc', command.replaceAll(/(^| )node (?=\w+\/)/g, `$1${node} `)], {
      cwd: app,
      env,
      maxBuffer: LARGE,
    });
  };

  for (const copy of argumentsOf(stage(dockerfile, 'packages'), 'COPY')) {
    for (const name of copy.split(' ').slice(0, -1)) await cp(join(ROOT, name), join(app, name));
  }
  for (const command of argumentsOf(stage(dockerfile, 'packages'), 'RUN')) await inApp(command);
  for (const command of argumentsOf(stage(dockerfile, 'tools'), 'RUN')) {
    if (command.startsWith('apt-get')) continue;
    await inApp(
      command
        .replaceAll(/(?<= )\/(?=requirements-)/g, `${join(ROOT, 'scripts')}/`)
        .replaceAll(/(?<= )\/(?=tools\b|postgres\b)/g, `${home}/`),
    );
  }
  await copyContext(app);
  for (const command of argumentsOf(stage(dockerfile, 'application'), 'RUN')) await inApp(command);

  const [variables = ''] = argumentsOf(dockerfile.slice(dockerfile.lastIndexOf('\nFROM ')), 'ENV');
  const env = Object.fromEntries(variables.split(/\s+/).map((pair) => pair.split('=') as [string, string]));
  await run('chmod', ['-R', 'a-w,a+rX', app, tools]);
  return { app, tools, node, env };
}

function stage(dockerfile: string, name: string): string {
  const text = dockerfile.split(/^(?=FROM )/m).find((candidate) => candidate.split('\n')[0]?.endsWith(` AS ${name}`));
  if (text === undefined) throw new Error(`The Dockerfile has no stage ${name}.`);
  return text;
}

function argumentsOf(text: string, instruction: string): string[] {
  const lines = text
    .replaceAll(/^ *#.*\n/gm, '')
    .replaceAll(/\s*\\\n\s*/g, ' ')
    .split('\n');
  return lines.flatMap((line) =>
    line.startsWith(`${instruction} `) ? [line.slice(instruction.length + 1).trim()] : [],
  );
}

/**
 * Copies what .dockerignore lets through: the rules with `!` name the included paths, the others exclude parts of them.
 */
async function copyContext(app: string): Promise<void> {
  const rules = (await readFile(join(ROOT, '.dockerignore'), 'utf8'))
    .split('\n')
    .filter((line) => /^[^#*]|^\*\*/.test(line));
  const leftOut = rules.filter((rule) => !rule.startsWith('!'));
  const isLeftOut = (path: string) =>
    leftOut.some((rule) => (rule.startsWith('**/*') ? path.endsWith(rule.slice('**/*'.length)) : path === rule));
  for (const name of rules.flatMap((rule) => (rule.startsWith('!') ? [rule.slice(1)] : []))) {
    await cp(join(ROOT, name), join(app, name), {
      recursive: true,
      filter: (source) => !isLeftOut(relative(ROOT, source).split(sep).join('/')),
    });
  }
}
